// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/store/memstore"
)

// Note is a resource with its own guard: the newest mark that it has seen is kept
// beside the text, under the same mutex.
type Note struct {
	lock string // whose tokens it takes

	mu   sync.Mutex
	text string
	kept fence.Mark
}

// Enter raises the fence and then reads.
func (n *Note) Enter(ctx context.Context) (text string, err error) {
	err = n.admit(ctx, func() { text = n.text })
	return text, err
}

// Set writes, if no newer holder has been here.
func (n *Note) Set(ctx context.Context, text string) error {
	return n.admit(ctx, func() { n.text = text })
}

// admit checks, keeps the mark and does the work in one step.
func (n *Note) admit(ctx context.Context, work func()) error {
	given, err := fence.FromContext(ctx, n.lock)
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := fence.Check(n.kept, given); err != nil {
		return err
	}
	n.kept = given
	work()
	return nil
}

// A holder whose lease was broken comes late, and the resource refuses it.
func Example() {
	ctx := context.Background()
	locks, err := fencelock.New(memstore.New(nil), &fencelock.Options{Owner: "ann"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close(ctx)

	const lock = "notes/1"
	note := &Note{lock: lock}
	err = locks.Do(ctx, lock, func(ctx context.Context, l *fencelock.Lease) error {
		text, err := note.Enter(ctx)
		if err != nil {
			return err
		}
		// While ann works, an operator breaks her lease. The token that ForceUnlock
		// returns fences her off at once.
		raised, err := locks.ForceUnlock(ctx, lock, l.Token())
		if err != nil {
			return err
		}
		operator := fence.With(context.Background(), fence.Mark{Lock: lock, Token: raised, Holder: "operator"})
		if _, err := note.Enter(operator); err != nil {
			return err
		}
		return note.Set(ctx, text+"written by ann")
	})
	fmt.Println("stale:", errors.Is(err, fence.ErrStale))
	var stale *fence.StaleError
	if errors.As(err, &stale) {
		fmt.Println("given:", stale.Given)
		fmt.Println("newer:", stale.Newer)
	}
	fmt.Printf("note: %q\n", note.text)
	// Output:
	// stale: true
	// given: token 256 of lock "notes/1", held by ann
	// newer: token 512 of lock "notes/1", held by operator
	// note: ""
}
