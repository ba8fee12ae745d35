// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// SessionID names one session. The core makes it before the first request is
// sent, so an Open whose reply was lost can be repeated for the same session.
type SessionID [16]byte

// NewSessionID returns an id that no other process has.
func NewSessionID() SessionID {
	var id SessionID
	rand.Read(id[:]) // guaranteed never to fail since Go 1.24
	return id
}

// String returns the id as 32 hexadecimal digits.
func (id SessionID) String() string { return hex.EncodeToString(id[:]) }

// ClaimID names one claim among all claims of all processes: the session it
// hangs on and its number there. It is never used twice.
type ClaimID struct {
	// Session is the session of the claim, and Seq the claim's number there.
	Session SessionID
	Seq     uint64
}

// String returns session and number, joined by a colon.
func (id ClaimID) String() string { return fmt.Sprintf("%s:%d", id.Session, id.Seq) }
