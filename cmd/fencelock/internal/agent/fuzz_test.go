// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/memstore"
)

// conversation is a connection to an agent: what the client sent, and what it got.
type conversation struct {
	io.Reader
	got bytes.Buffer
}

func (c *conversation) Write(p []byte) (int, error) { return c.got.Write(p) }

// hold returns a lease that ends in an hour.
func hold(t *testing.T) (h *Held, end time.Time) {
	t.Helper()
	c, err := fencelock.New(memstore.New(nil), nil)
	must.OK(t, err)
	t.Cleanup(func() { _ = c.Close(t.Context()) })
	l, err := c.Mutex("a").TryLock(t.Context())
	must.OK(t, err)
	end = time.Now().Add(time.Hour)
	h = &Held{Lease: l, Owner: "ann", ExitCode: func(error) int { return 7 }}
	h.Until(end)
	return h, end
}

// FuzzRequest: only a request to release releases the lock, only a request to renew
// moves its end, and never into the past; the answer is one JSON object or nothing.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		`{"op":"renew"}`, `{"op":"renew","for_ms":60000}`, `{"op":"release"}`, `{"op":"break"}`, `{}`, `null`, `[]`, ``, `{`,
		`{"op":"renew","for_ms":9223372036854775807}`, `{"op":"renew","for_ms":-1}`, `{"op":"renew","for_ms":1e3}`,
		`{"op":"renew"}{"op":"release"}`, `{"Op":"RELEASE"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		h, end := hold(t)
		conn, began := &conversation{Reader: bytes.NewReader(text)}, time.Now()
		released := h.Converse(conn)
		var req Request
		understood := json.NewDecoder(bytes.NewReader(text[:min(len(text), maxRequest)])).Decode(&req) == nil
		if want := understood && req.Op == "release"; released != want || (h.Lease.Err() != nil) != want {
			t.Errorf("released %v, the lease says %v, want %v", released, h.Lease.Err(), want)
		}
		if moved := !h.end.Equal(end); moved != (understood && req.Op == "renew" && req.ForMS > 0) {
			t.Errorf("the end moved: %v, for %+v", moved, req)
		}
		if h.end.Before(began) {
			t.Errorf("the end is in the past: %v", h.end)
		}
		if !understood {
			if conn.got.Len() > 0 {
				t.Errorf("an answer to nothing: %s", conn.got.String())
			}
			return
		}
		if reply, err := Read(&conn.got); (err == nil) != (req.Op == "renew" || req.Op == "release") {
			t.Errorf("%+v has the answer %+v, %v", req, reply, err)
		}
	})
}

// FuzzReply: whatever an agent answers, it is a success only if the answer names the
// lock and no error, and an error has an exit code that a shell can see.
func FuzzReply(f *testing.F) {
	for _, seed := range []string{
		`{"lock":"a","token":"768","owner":"ann","kept_ms":5}`, `{"lock":"a","error":"lost","code":76}`, `{"error":"lost"}`, `{"lock":"a","code":76}`,
		`{"lock":"a","error":"x","code":256}`, `{"lock":"a","error":"x","code":-1}`, `{}`, `null`, `0`, `[]`, ``, `{`, `{"lock":"a","token":768}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		reply, err := Read(bytes.NewReader(text))
		var answered *ReplyError
		switch {
		case err == nil:
			if reply.Lock == "" || reply.Error != "" || reply.Code != 0 {
				t.Errorf("success for %+v", reply)
			}
		case errors.As(err, &answered):
			if answered.Code < 1 || answered.Code > 255 || answered.Text == "" {
				t.Errorf("got %+v", answered)
			}
		case !errors.Is(err, ErrNoAnswer):
			t.Errorf("got %v", err)
		}
	})
}

// TestAnswersAfterRelease: renew after release reports that, and a second release is
// released.
func TestAnswersAfterRelease(t *testing.T) {
	h, _ := hold(t)
	if reply := h.answer(Request{Op: Release}); reply.Error != "" || reply.Lock != "a" || reply.KeptMS != 0 {
		t.Errorf("got %+v", reply)
	}
	if reply := h.answer(Request{Op: Renew, ForMS: 1000}); reply.Error != "a: "+ErrReleased.Error() || reply.Code != 7 {
		t.Errorf("got %+v", reply)
	}
	if reply := h.answer(Request{Op: Release}); reply.Error != "" {
		t.Errorf("got %+v", reply)
	}
}
