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
	// Holder names the holder for people. It may be empty, and decides nothing.
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

// markNode links the marks that a context carries, innermost first. The leases
// are those that the context carried before: another one was taken since, and is
// further in.
type markNode struct {
	mark  Mark
	outer *markNode
	same  *fencelock.Lease // the innermost of the mark's lock, or nil
	any   *fencelock.Lease // the innermost of all, or nil
}

// With returns a context that carries a mark, for where there is no lease: the
// token came with a request, or from Client.ForceUnlock to fence a broken holder off.
// The mark comes before what ctx carries, and a lease that is taken with the
// returned context comes before the mark.
func With(ctx context.Context, m Mark) context.Context {
	outer, _ := ctx.Value(markKey{}).(*markNode)
	return context.WithValue(ctx, markKey{}, &markNode{m, outer, fencelock.FromContext(ctx, m.Lock), fencelock.Innermost(ctx)})
}

// FromContext returns the innermost mark of a lock that ctx carries, by With or in a
// lease. It returns an error that wraps ErrWrongLock if ctx carries marks of other locks
// only, and one that wraps ErrNoToken if it carries none. An empty name is no
// lock's and finds nothing: a guard that has lost the name of its lock must not
// take the token of any.
//
// FromContext does not ask whether the lease is still held: the context ends when it is
// lost, and the resource decides.
func FromContext(ctx context.Context, lock string) (Mark, error) {
	if m, found := find(ctx, lock); found && lock != "" {
		return m, valid(m)
	}
	if other, found := find(ctx, ""); found {
		return Mark{}, fmt.Errorf("%w: the resource belongs to lock %q, and the context carries %v", ErrWrongLock, lock, other)
	}
	return Mark{}, fmt.Errorf("%w for lock %q: pass the context of its lease, or one made by fence.With", ErrNoToken, lock)
}

// Innermost returns the innermost mark that ctx carries, by With or in a lease,
// whatever its lock. It is for code that passes a mark on, such as a transport; a
// guard must use FromContext. It returns an error that wraps ErrNoToken if ctx carries no
// mark, or one without a token.
func Innermost(ctx context.Context) (Mark, error) {
	m, found := find(ctx, "")
	if !found {
		return m, fmt.Errorf("%w: pass the context of a lease, or one made by fence.With", ErrNoToken)
	}
	return m, valid(m)
}

// find returns the innermost mark of a lock, or of any if the name is empty.
func find(ctx context.Context, lock string) (Mark, bool) {
	lease := fencelock.FromContext(ctx, lock)
	if lock == "" {
		lease = fencelock.Innermost(ctx)
	}
	for n, _ := ctx.Value(markKey{}).(*markNode); n != nil; n = n.outer {
		before := n.same
		if lock == "" {
			before = n.any
		}
		if lock != "" && n.mark.Lock != lock {
			continue
		}
		if lease != before {
			break // taken since, so further in
		}
		return n.mark, true
	}
	if lease != nil {
		return Of(lease), true
	}
	return Mark{}, false
}

// valid rejects a mark without a token: a store without fencing returns zero.
func valid(m Mark) error {
	if m.Token <= 0 {
		return fmt.Errorf("%w: %d is not a token, for lock %q; the store may not give any, see Client.Guarantees", ErrNoToken, m.Token, m.Lock)
	}
	return nil
}
