// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"
	"fmt"

	"github.com/fencelock/fencelock"
)

// Mark is a token with the lock it belongs to. It is what travels to a
// resource and what a guard keeps there. A bare number from one lock would open
// the resources of another.
type Mark struct {
	// Lock is the name of the lock.
	Lock string `json:"lock"`
	// Token is the token of one acquisition of it; it is positive.
	Token fencelock.Token `json:"token"`
	// Holder says to people whose it is. It may be empty, and decides nothing.
	Holder string `json:"holder,omitempty"`
}

// String returns the mark for people: token 512 of lock "orders/42".
func (m Mark) String() string {
	text := fmt.Sprintf("token %d of lock %q", m.Token, m.Lock)
	if m.Holder != "" {
		text += ", held by " + m.Holder
	}
	return text
}

// Of returns the mark of a lease.
func Of(l *fencelock.Lease) Mark {
	return Mark{Lock: l.Name(), Token: l.Token(), Holder: l.Owner()}
}

type markKey struct{}

// markNode links the marks that a context carries, innermost first.
type markNode struct {
	mark  Mark
	outer *markNode
}

// With returns a context that carries a mark, for where there is no lease: the
// token came with a request, or from Client.Break to fence a broken holder off.
// For its lock the mark comes before any lease that the context carries too.
func With(ctx context.Context, m Mark) context.Context {
	outer, _ := ctx.Value(markKey{}).(*markNode)
	return context.WithValue(ctx, markKey{}, &markNode{m, outer})
}

// From returns the mark of a lock that ctx carries, by With or in a lease. It
// returns an error that wraps ErrWrongLock if ctx carries marks of other locks
// only, and one that wraps ErrNoToken if it carries none. An empty name is no
// lock's and finds nothing: a guard that has lost the name of its lock must not
// take the token of any.
//
// From does not ask whether the lease is still held: the context ends when it is
// lost, and the resource decides.
func From(ctx context.Context, lock string) (Mark, error) {
	for n, _ := ctx.Value(markKey{}).(*markNode); n != nil && lock != ""; n = n.outer {
		if n.mark.Lock == lock {
			return n.mark, valid(n.mark)
		}
	}
	if l := fencelock.FromContext(ctx, lock); l != nil && lock != "" {
		return Of(l), valid(Of(l))
	}
	if other, found := innermost(ctx); found {
		return Mark{}, fmt.Errorf("%w: the resource belongs to lock %q, and the context carries %v", ErrWrongLock, lock, other)
	}
	return Mark{}, fmt.Errorf("%w for lock %q: pass the context of its lease, or one made by fence.With", ErrNoToken, lock)
}

// Innermost returns the mark that ctx carries, whatever its lock: the innermost
// by With, or else that of the innermost lease. It is for those who hand a mark
// on, as a transport does. A guard must ask From. It returns an error that wraps
// ErrNoToken if there is none.
func Innermost(ctx context.Context) (Mark, error) {
	m, found := innermost(ctx)
	if !found {
		return m, fmt.Errorf("%w: pass the context of a lease, or one made by fence.With", ErrNoToken)
	}
	return m, valid(m)
}

func innermost(ctx context.Context) (Mark, bool) {
	if n, _ := ctx.Value(markKey{}).(*markNode); n != nil {
		return n.mark, true
	}
	if l := fencelock.FromContext(ctx, ""); l != nil {
		return Of(l), true
	}
	return Mark{}, false
}

// valid refuses what is no token: a store without fencing gives zero.
func valid(m Mark) error {
	if m.Token <= 0 {
		return fmt.Errorf("%w: %d is none, for lock %q; the store may not give any, see Client.Guarantees", ErrNoToken, m.Token, m.Lock)
	}
	return nil
}
