// SPDX-License-Identifier: Apache-2.0

package rediscmd

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Texts sends the texts of scripts that a server does not know. After a failover all sessions of a
// process find out at once that the new server knows no script. A text is long: one call sends it, the
// others wait for that call and then use the SHA.
type Texts struct {
	mu      sync.Mutex
	sending map[string]chan struct{} // by SHA; closed when the call is over
}

// textWait is how long a call waits for the text that another one sends. The connection of the other
// call may be dead, and this one's is not.
const textWait = 250 * time.Millisecond

// Send repeats a call that the server answered with NOSCRIPT, and so did not carry out: by the text, or by the SHA
// once another call has sent the text.
func (t *Texts) Send(ctx context.Context, sha string, bySHA, byText func() ([]any, error)) ([]any, error) {
	for {
		other := t.begin(sha)
		if other == nil {
			defer t.end(sha)
			return byText()
		}
		if !waited(ctx, other) {
			if ctx.Err() != nil {
				return nil, fmt.Errorf("redisstore: %w", ctx.Err()) // nothing was carried out
			}
			return byText()
		}
		reply, err := bySHA()
		if !MissingScript(err) {
			return reply, err
		}
	}
}

// waited reports whether the other call is over in time.
func waited(ctx context.Context, other <-chan struct{}) bool {
	wait := textWait
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, time.Until(end)/3) // or nothing would be sent in time
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	select {
	case <-other:
		return true
	case <-late.C:
	case <-ctx.Done():
	}
	return false
}

// begin returns nil if the caller is to send the text, and otherwise what is closed when the call that sends it is
// over.
func (t *Texts) begin(sha string) <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	if other := t.sending[sha]; other != nil {
		return other
	}
	if t.sending == nil {
		t.sending = map[string]chan struct{}{}
	}
	t.sending[sha] = make(chan struct{})
	return nil
}

func (t *Texts) end(sha string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.sending[sha])
	delete(t.sending, sha)
}
