// SPDX-License-Identifier: Apache-2.0

package rueidisclient

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/redis/rueidis"
)

// fakeConn is a connection that notes that it was closed and given back.
type fakeConn struct {
	rueidis.DedicatedClient
	once     sync.Once
	closed   chan struct{}
	released atomic.Bool
}

func (c *fakeConn) Close() { c.once.Do(func() { close(c.closed) }) }

// onLane returns a client whose first lane has a connection.
func onLane() (*Client, *fakeConn) {
	conn := &fakeConn{closed: make(chan struct{})}
	a := &Client{}
	l := &a.lanes[0]
	l.used, l.calls, l.watched = time.Now(), enough, true
	l.dedicated = dedicated{conn, func() { conn.released.Store(true) }}
	return a, conn
}

// isClosed reports whether a connection was closed.
func (c *fakeConn) isClosed() bool {
	synctest.Wait()
	select {
	case <-c.closed:
		return true
	default:
		return false
	}
}

// TestContextEndsTheCallOnAConnection: the end of a context closes the connection on which a
// call with that context is under way, and never at another time.
func TestContextEndsTheCallOnAConnection(t *testing.T) {
	for _, during := range []string{"its call", "no call", "a call with another context"} {
		synctest.Test(t, func(t *testing.T) {
			a, conn := onLane()
			first, end := context.WithCancel(t.Context())
			defer end()
			answered := func(context.Context, rueidis.CoreClient) (int, error) { return 7, nil }
			if v, err := call(first, a, answered); v != 7 || err != nil {
				t.Fatalf("got %d, %v", v, err)
			}
			ctx := map[string]context.Context{"its call": first, "a call with another context": t.Context()}[during]
			result := make(chan error, 1)
			result <- nil
			if ctx != nil {
				<-result
				go func() {
					_, err := call(ctx, a, func(context.Context, rueidis.CoreClient) (int, error) {
						select {
						case <-conn.closed:
							return 0, io.EOF
						case <-time.After(5 * time.Millisecond):
							return 0, nil
						}
					})
					result <- err
				}()
				synctest.Wait()
			}
			end()
			want := during == "its call"
			if conn.isClosed() != want {
				t.Errorf("during %s: closed is %t", during, !want)
			}
			if err := <-result; want != errors.Is(err, driver.ErrUnknown) || want != errors.Is(err, context.Canceled) {
				t.Errorf("during %s: %v", during, err)
			}
			if conn.released.Load() != want {
				t.Errorf("during %s: given back is %t", during, conn.released.Load())
			}
			if _, err := call(first, a, answered); !errors.Is(err, context.Canceled) || errors.Is(err, driver.ErrUnknown) {
				t.Errorf("a call began with a context that had ended: %v", err)
			}
		})
	}
}

// TestConnectionIsNotUsedAfterAPause: the server may have been restarted, and nothing has read the connection.
func TestConnectionIsNotUsedAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, conn := onLane()
		time.Sleep(2 * pause)
		if l := a.take(); l != nil || !conn.isClosed() || !conn.released.Load() {
			t.Errorf("the connection is used: %t, given up: %t", l != nil, conn.released.Load())
		}
	})
}

// TestIdleConnectionIsGivenBack: a lane keeps its connection while calls come, and gives it up soon after the last.
func TestIdleConnectionIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, conn := onLane()
		time.AfterFunc(idle, a.lanes[0].expire)
		for range 1000 {
			time.Sleep(pause / 2)
			if _, err := call(t.Context(), a, func(context.Context, rueidis.CoreClient) (int, error) { return 0, nil }); err != nil {
				t.Fatal(err)
			}
		}
		if conn.released.Load() {
			t.Error("the connection was given up while calls came")
		}
		time.Sleep(2 * idle)
		if !conn.isClosed() || !conn.released.Load() {
			t.Error("the connection was not given up after the last call")
		}
	})
}

// late is a context as package callctx makes it, whose own timer is late.
type late struct{ context.Context }

// EndsAtDeadline marks it.
func (late) EndsAtDeadline() {}

// Deadline implements context.Context.
func (late) Deadline() (time.Time, bool) { return time.Now().Add(time.Millisecond), true }

// TestDeadlineEndsTheCallOnAConnection: a call whose context only ends at its deadline is ended by a timer. The error says that the deadline
// passed, also if the context does not know it yet.
func TestDeadlineEndsTheCallOnAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, conn := onLane()
		for range 2 { // the second time the timer is reset
			if _, err := call(late{t.Context()}, a, func(context.Context, rueidis.CoreClient) (int, error) { return 7, nil }); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(5 * time.Millisecond)
		if conn.isClosed() {
			t.Fatal("the deadline of a call that was answered closed the connection")
		}
		_, err := call(late{t.Context()}, a, func(context.Context, rueidis.CoreClient) (int, error) {
			<-conn.closed
			return 0, io.EOF
		})
		if !errors.Is(err, driver.ErrUnknown) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want an unknown outcome and the deadline", err)
		}
	})
}
