// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// Keys of one namespace:
//
//	ns|session|SID                  a session; its lease is the session's life
//	ns|held|NAME|SID:SEQ            a grant
//	ns|held|NAME|SID:SEQ+max        on a lease of its own: the MaxHold is not over
//	ns|held|NAME|SID:SEQ+min, +keep on a lease of its own: keeps the lock taken
//	ns|line|NAME|SID:SEQ            a claim in line
//	ns|limit|NAME|                  a stored limit
//	ns|wake|SID|SEQ                 the push of a grant from the line
//	ns|gone|SID|SEQ                 a claim that must never be granted (again)
//	ns|broken|SID|SEQ               a grant that an operator broke
//
// A name never contains the bar, so no range of one name holds a key of another,
// and the range of a prefix of names is a range of keys.
type Space string

// The endings of keys beside a grant.
const (
	EndMax  = "+max"
	EndMin  = "+min"
	EndKeep = "+keep"
)

const upperHex = "0123456789ABCDEF"

// Escape writes a name, or a prefix of one, as it stands in keys: byte by byte, so
// that a prefix of a name is a prefix of its key.
func Escape(name string) string {
	var b strings.Builder
	for i := range len(name) {
		switch c := name[i]; {
		case c == '|' || c == '%' || c < ' ' || c == 0x7f:
			b.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// Unescape undoes Escape.
func Unescape(s string) (string, error) {
	if !strings.Contains(s, "%") {
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", fmt.Errorf("a %% without two digits in %q", s)
		}
		c, err := hex.DecodeString(s[i+1 : i+3])
		if err != nil {
			return "", err
		}
		b.Write(c)
		i += 2
	}
	return b.String(), nil
}

// NewSpace returns the keys of a namespace.
func NewSpace(namespace string) Space { return Space(Escape(namespace) + "|") }

// All is the prefix of every key.
func (s Space) All() string { return string(s) }

// Held is the prefix of the grants of a name, Line that of its claims in line.
func (s Space) Held(name string) string { return s.HeldFrom() + Escape(name) + "|" }

// Line is the prefix of a name's claims in line.
func (s Space) Line(name string) string { return s.LineFrom() + Escape(name) + "|" }

// HeldFrom and LineFrom are the prefixes over all names.
func (s Space) HeldFrom() string { return string(s) + "held|" }

// LineFrom is the prefix of all claims in line.
func (s Space) LineFrom() string { return string(s) + "line|" }

// Limit is the key of a stored limit.
func (s Space) Limit(name string) string { return string(s) + "limit|" + Escape(name) + "|" }

// Session is the key of a session.
func (s Space) Session(id driver.SessionID) string { return string(s) + "session|" + id.String() }

// Wakes is the prefix of the pushes to a session.
func (s Space) Wakes(id driver.SessionID) string { return string(s) + "wake|" + id.String() + "|" }

// Broken is the prefix of a session's broken claims.
func (s Space) Broken(id driver.SessionID) string { return string(s) + "broken|" + id.String() + "|" }

// Gone is the prefix of a session's claims that must not be granted.
func (s Space) Gone(id driver.SessionID) string { return string(s) + "gone|" + id.String() + "|" }

// Keys are the keys of one claim.
type Keys struct {
	Held, Line, Wake, Gone, Broken string
}

// Claim returns the keys of a claim.
func (s Space) Claim(name string, id driver.ClaimID) Keys {
	seq := strconv.FormatUint(id.Seq, 10)
	return Keys{
		Held: s.Held(name) + id.String(), Line: s.Line(name) + id.String(),
		Wake: s.Wakes(id.Session) + seq, Gone: s.Gone(id.Session) + seq, Broken: s.Broken(id.Session) + seq,
	}
}

// End returns the key after all keys with the prefix.
func End(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return string(b[:i+1])
		}
	}
	return "\x00" // to the end of the key space
}

// ParseClaim takes a key under prefix apart: the name in its escaped form, the
// claim and the ending.
func ParseClaim(key, prefix string) (name string, id driver.ClaimID, end string, err error) {
	rest, ok := strings.CutPrefix(key, prefix)
	bar := strings.LastIndexByte(rest, '|')
	if !ok || bar < 0 {
		return "", id, "", fmt.Errorf("%q is no key of a claim", key)
	}
	name, rest = rest[:bar], rest[bar+1:]
	if plus := strings.IndexByte(rest, '+'); plus >= 0 {
		rest, end = rest[:plus], rest[plus:]
	}
	session, seq, ok := strings.Cut(rest, ":")
	b, err := hex.DecodeString(session)
	if err == nil && (!ok || len(b) != len(id.Session)) {
		err = fmt.Errorf("%q names no claim", key)
	}
	if err == nil {
		copy(id.Session[:], b)
		id.Seq, err = strconv.ParseUint(seq, 10, 64)
	}
	return name, id, end, err
}
