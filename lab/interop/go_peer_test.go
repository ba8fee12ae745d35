// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
)

// goPeerWord as the first argument makes the test program a process with fencelock, driven by lines as the peers in Java are: one
// that can be killed and paused.
const goPeerWord = "go-peer"

// goPeer is such a process. An actor holds one lock.
type goPeer struct {
	locks *fencelock.Client

	mu   sync.Mutex
	held map[string]*fencelock.Lease
	out  sync.Mutex
}

// startGo starts a Go process with a store. A kind of lock is lock or read.
func startGo(t testing.TB, url string, ttl time.Duration) *peer {
	t.Helper()
	program, err := os.Executable()
	must.OK(t, err)
	return &peer{launch(t, []string{program, goPeerWord}, url, millis(ttl)), ""}
}

// runGoPeer runs the process: its arguments are the URL of the store and the TTL in milliseconds.
func runGoPeer(args []string) error {
	ttl, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	store, err := fencelock.OpenStore(context.Background(), args[0])
	if err != nil {
		return err
	}
	locks, err := fencelock.New(store, &fencelock.Options{TTL: time.Duration(ttl) * time.Millisecond})
	if err != nil {
		return err
	}
	p := &goPeer{locks: locks, held: map[string]*fencelock.Lease{}}
	fmt.Println("ready fencelock")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		go p.take(strings.Split(lines.Text(), " "))
	}
	return lines.Err()
}

func (p *goPeer) take(words []string) {
	begin := time.Now()
	word, value := "ok", ""
	if err := p.act(words[1], words[2], words[3], words[4]); err != nil {
		word, value = "err", strings.ReplaceAll(err.Error(), "\n", " ")
		if errors.Is(err, fencelock.ErrLost) {
			value = lostWord + ": " + value
		}
	}
	p.out.Lock()
	defer p.out.Unlock()
	fmt.Println(words[0], word, begin.UnixMicro(), time.Now().UnixMicro(), value)
}

// lostWord begins the answer to an UNLOCK of a lock that was lost.
const lostWord = "ErrLost"

func (p *goPeer) act(actor, verb, kind, name string) error {
	ctx := context.Background()
	switch verb + " " + kind {
	case "LOCK lock":
		return p.keep(actor)(p.locks.Mutex(name).Lock(ctx))
	case "LOCK read":
		return p.keep(actor)(p.locks.RWMutex(name).RLock(ctx))
	case "UNLOCK lock", "UNLOCK read":
		p.mu.Lock()
		l := p.held[actor]
		delete(p.held, actor)
		p.mu.Unlock()
		if l == nil {
			return fmt.Errorf("%s holds nothing", actor)
		}
		return l.Unlock(ctx)
	}
	return fmt.Errorf("unknown request %s %s", verb, kind)
}

// keep notes what an actor holds.
func (p *goPeer) keep(actor string) func(*fencelock.Lease, error) error {
	return func(l *fencelock.Lease, err error) error {
		if err == nil {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.held[actor] = l
		}
		return err
	}
}

// lostInAPause checks that a Go process which held a lock before its pause, and not after it, is notified when it unlocks.
func lostInAPause(t testing.TB, g *peer, actor, kind, name string) {
	t.Helper()
	if got := g.Do(actor, "UNLOCK", kind, name); !strings.HasPrefix(got.Value, lostWord) {
		t.Errorf("unlock of a lock that was lost in a pause: %v", got)
	}
}
