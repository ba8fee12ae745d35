// SPDX-License-Identifier: Apache-2.0

//go:build unix

// Package browser drives a headless Chromium, for tests of the console and for its
// pictures. It speaks the DevTools protocol over a pipe, which needs no library.
package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// ErrMissing: there is no Chromium.
var ErrMissing = errors.New("Chromium is not installed; on Debian: apt-get install chromium, or set CHROMIUM")

// Browser is a Chromium with one page.
type Browser struct {
	cmd     *exec.Cmd
	dir     string
	in      io.WriteCloser
	session string

	mu      sync.Mutex
	next    int
	waiting map[int]chan message
	// Errors are what the page wrote to its console as errors, and exceptions.
	errors []string
	gone   chan struct{}
}

type message struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

func find() (string, error) {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrMissing
}

// Start starts a browser with an empty page.
func Start(ctx context.Context) (*Browser, error) {
	path, err := find()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "fencelock-browser")
	if err != nil {
		return nil, err
	}
	args := []string{"--headless", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
		"--disable-sync", "--hide-scrollbars", "--mute-audio", "--remote-debugging-pipe", "--user-data-dir=" + dir}
	if os.Getuid() == 0 {
		args = append(args, "--no-sandbox") // it refuses to run as root otherwise
	}
	toChild, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, fromChild, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b := &Browser{cmd: exec.Command(path, append(args, "about:blank")...), dir: dir, in: in, waiting: map[int]chan message{}, gone: make(chan struct{})}
	b.cmd.ExtraFiles = []*os.File{toChild, fromChild} // descriptors 3 and 4
	if err := b.cmd.Start(); err != nil {
		return nil, err
	}
	_, _ = toChild.Close(), fromChild.Close()
	go b.read(out)
	if err := b.attach(ctx); err != nil {
		b.Close()
		return nil, err
	}
	return b, nil
}

func (b *Browser) read(out io.ReadCloser) {
	defer close(b.gone)
	defer out.Close()
	r := bufio.NewReaderSize(out, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(bytes.TrimRight(text, "\x00"), &m) != nil {
			continue
		}
		b.mu.Lock()
		if answer := b.waiting[m.ID]; m.ID != 0 && answer != nil {
			delete(b.waiting, m.ID)
			answer <- m
		}
		if m.Method == "Runtime.exceptionThrown" || m.Method == "Log.entryAdded" && bytes.Contains(m.Params, []byte(`"level":"error"`)) {
			b.errors = append(b.errors, string(m.Params))
		}
		b.mu.Unlock()
	}
}

// Errors returns what went wrong in the page since the last call.
func (b *Browser) Errors() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.errors
	b.errors = nil
	return all
}

// Call calls a method of the DevTools protocol and decodes its result into result, which may be nil.
func (b *Browser) Call(ctx context.Context, method string, params, result any) error {
	answer := make(chan message, 1)
	b.mu.Lock()
	b.next++
	id := b.next
	b.waiting[id] = answer
	b.mu.Unlock()
	text, err := json.Marshal(map[string]any{"id": id, "method": method, "params": params, "sessionId": b.session})
	if b.session == "" {
		text, err = json.Marshal(map[string]any{"id": id, "method": method, "params": params})
	}
	if err != nil {
		return err
	}
	if _, err := b.in.Write(append(text, 0)); err != nil {
		return err
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-ctx.Done():
		return ctx.Err()
	case <-b.gone:
		return errors.New("the browser ended")
	}
}

func (b *Browser) attach(ctx context.Context) error {
	var target struct {
		ID string `json:"targetId"`
	}
	if err := b.Call(ctx, "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return err
	}
	var session struct {
		ID string `json:"sessionId"`
	}
	if err := b.Call(ctx, "Target.attachToTarget", map[string]any{"targetId": target.ID, "flatten": true}, &session); err != nil {
		return err
	}
	b.session = session.ID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		if err := b.Call(ctx, domain+".enable", map[string]any{}, nil); err != nil {
			return err
		}
	}
	return nil
}

// Screen sets the size of the page, whether it is a phone, and light or dark.
func (b *Browser) Screen(ctx context.Context, width, height int, phone bool, scheme string) error {
	scale := 1
	if phone {
		scale = 2
	}
	return errors.Join(
		b.Call(ctx, "Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": scale, "mobile": phone}, nil),
		b.Call(ctx, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil))
}

// Open loads a page.
func (b *Browser) Open(ctx context.Context, url string) error {
	return b.Call(ctx, "Page.navigate", map[string]any{"url": url}, nil)
}

// Eval runs code in the page, waits for its promise and decodes the value into result.
func (b *Browser) Eval(ctx context.Context, code string, result any) error {
	var answer struct {
		Result struct {
			Value json.RawMessage `json:"value"`
		} `json:"result"`
		Exception *struct {
			Text      string `json:"text"`
			Exception struct {
				Description string `json:"description"`
			} `json:"exception"`
		} `json:"exceptionDetails"`
	}
	params := map[string]any{"expression": code, "awaitPromise": true, "returnByValue": true, "userGesture": true}
	if err := b.Call(ctx, "Runtime.evaluate", params, &answer); err != nil {
		return err
	}
	if e := answer.Exception; e != nil {
		return fmt.Errorf("%s %s", e.Text, e.Exception.Description)
	}
	if result == nil || len(answer.Result.Value) == 0 {
		return nil
	}
	return json.Unmarshal(answer.Result.Value, result)
}

// Await waits until an expression is true.
func (b *Browser) Await(ctx context.Context, expression string) error {
	for {
		var ok bool
		err := b.Eval(ctx, "Boolean("+expression+")", &ok)
		if ok {
			return nil
		}
		select {
		case <-time.After(30 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("never true: %s (%v)", expression, err)
		}
	}
}

// Key presses a key, such as Enter or ArrowDown, or types a text.
func (b *Browser) Key(ctx context.Context, key string) error {
	if len(key) == 1 {
		return b.Call(ctx, "Input.dispatchKeyEvent", map[string]any{"type": "char", "text": key, "key": key}, nil)
	}
	codes := map[string]int{"Enter": 13, "Escape": 27, "ArrowDown": 40, "ArrowUp": 38, "End": 35, "Home": 36, "Tab": 9, "PageDown": 34}
	for _, kind := range []string{"rawKeyDown", "keyUp"} {
		params := map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": codes[key]}
		if err := b.Call(ctx, "Input.dispatchKeyEvent", params, nil); err != nil {
			return err
		}
	}
	return nil
}

// Screenshot writes the page to a PNG file.
func (b *Browser) Screenshot(ctx context.Context, file string) error {
	var shot struct {
		Data string `json:"data"`
	}
	if err := b.Call(ctx, "Page.captureScreenshot", map[string]any{"format": "png"}, &shot); err != nil {
		return err
	}
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	if err != nil {
		return err
	}
	return os.WriteFile(file, data, 0o644)
}

// Close ends the browser.
func (b *Browser) Close() {
	_ = b.in.Close()
	select {
	case <-b.gone:
	case <-time.After(5 * time.Second):
	}
	_ = b.cmd.Process.Kill()
	_ = b.cmd.Wait()
	_ = os.RemoveAll(b.dir)
}
