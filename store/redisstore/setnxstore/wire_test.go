// SPDX-License-Identifier: Apache-2.0

package setnxstore_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
)

// How many words the commands of scripts have.
const (
	takeWords    = 3 + 4 + 4
	releaseWords = 3 + 4 + 7
)

// wire is the connection of a client to one server, in which a test delays commands and their replies.
type wire struct {
	mu   sync.Mutex
	rule func(words []any, send func() error) error
}

// set makes a rule for commands with a number of words. The rule sends the command, or not.
func (w *wire) set(words int, rule func(words []any, send func() error) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rule = func(all []any, send func() error) error {
		if len(all) != words {
			return send()
		}
		return rule(all, send)
	}
}

// clear removes the rule.
func (w *wire) clear() { w.set(-1, nil) }

func (w *wire) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *wire) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (w *wire) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		w.mu.Lock()
		rule := w.rule
		w.mu.Unlock()
		if rule == nil {
			return next(ctx, cmd)
		}
		err := rule(cmd.Args(), func() error { return next(ctx, cmd) })
		if err != nil {
			cmd.SetErr(err)
		}
		return err
	}
}

// errRefused is the error of a server that is down, and errReset that of a reply that was lost.
var (
	errRefused = &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	errReset   = &net.OpError{Op: "read", Err: errors.New("connection reset")}
)

// refuse sends nothing.
func refuse([]any, func() error) error { return errRefused }

// loseReply sends the command.
func loseReply(_ []any, send func() error) error { return errors.Join(errReset, send()) }

// holdFirst lets the server take a claim, and holds back its first reply: taken is closed when it has the claim. withdraw
// lets the reply go, and waits until the claim was withdrawn for it.
func (w *wire) holdFirst() (taken <-chan struct{}, withdraw func(t *testing.T)) {
	has, resume := make(chan struct{}), make(chan struct{})
	var second atomic.Bool
	w.set(takeWords, func(_ []any, send func() error) error {
		err := send()
		if !second.Swap(true) {
			close(has)
			<-resume
		}
		return err
	})
	return has, func(t *testing.T) {
		t.Helper()
		withdrawn := make(chan struct{})
		w.set(releaseWords, func(_ []any, send func() error) error {
			defer close(withdrawn)
			return send()
		})
		close(resume)
		await(t, "the attempt whose reply was late is withdrawn", withdrawn)
		w.clear()
	}
}
