// SPDX-License-Identifier: Apache-2.0

package lockview

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
)

// BreakRequest is what an operator asks for. Token is that of the holder, so that a lease
// that began later is not hit.
type BreakRequest struct {
	Token  fencelock.Token
	Reason string
	By     string
}

// Broken is what was done.
type Broken struct {
	Time   time.Time       `json:"time"`
	Lock   string          `json:"lock"`
	Token  fencelock.Token `json:"token,string"`
	Fence  fencelock.Token `json:"fence,string"`
	Holder *Holder         `json:"holder,omitempty"`
	By     string          `json:"by"`
	Reason string          `json:"reason"`
}

// ErrGrace: the store was reset, and the holder that it shows may be stale.
var ErrGrace = errors.New("the store was reset, and the holder that it shows may be one from before")

// Break breaks the lease of a lock that was inspected just before. It returns ErrGrace during
// a grace period, and fencelock.ErrNotHeld if no holder has the token; nothing was done then.
func Break(ctx context.Context, c *fencelock.Client, st *fencelock.Status, r BreakRequest) (*Broken, error) {
	if st.Grace > 0 {
		return nil, fmt.Errorf("%s: %w; wait %s", st.Name, ErrGrace, text.Short(st.Grace))
	}
	done := &Broken{Time: time.Now(), Lock: st.Name, Token: r.Token, By: r.By, Reason: r.Reason}
	at := slices.IndexFunc(st.Holders, func(h fencelock.Holder) bool { return h.Token.Base() == r.Token.Base() })
	if at >= 0 {
		done.Holder = HolderOf(&st.Holders[at])
	}
	fence, err := c.Break(ctx, st.Name, r.Token)
	if err != nil {
		return nil, err
	}
	done.Fence = fence
	return done, nil
}
