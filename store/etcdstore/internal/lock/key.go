// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// Space makes the keys of one namespace:
//
//	ns|session|SID                  a session; its lease ends with the session
//	ns|lock|NAME|held|SID.SLOT      a grant
//	ns|lock|NAME|held|SID.SLOT+max  on a separate lease: the MaxHold is not over
//	ns|lock|NAME|held|SID.SLOT+min  on a separate lease: keeps the lock taken, as does +keep
//	ns|lock|NAME|queue|SID.SLOT     a queued claim
//	ns|limit|NAME|                  a stored limit
//	ns|wake|SID                     the last push to a session
//	ns|handle|SID                   written when a session is opened, in concurrencystore
//	ns|gone|SID|SEQ                 a claim that must never be granted (again)
//	ns|broken|SID|SEQ               a grant that an operator broke
//
// A name never contains the bar, so no range of one name holds a key of another,
// and the range of a prefix of names is a range of keys.
//
// A slot is a small number, the lowest that the session does not use for the name,
// and the number of the claim is in the value. With the claim's number in the key,
// every acquisition would have its own key, and until the next compaction etcd
// scans all keys that ever were in a range: a lock would get slower with each use.
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
	plain := 0
	for plain < len(name) && !special(name[plain]) {
		plain++
	}
	if plain == len(name) {
		return name
	}
	var b strings.Builder
	b.WriteString(name[:plain])
	for _, c := range []byte(name[plain:]) {
		if special(c) {
			b.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// special reports whether a byte of a name is escaped in keys.
func special(c byte) bool { return c == '|' || c == '%' || c < ' ' || c == 0x7f }

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

// Locks is the prefix of the keys of all locks.
func (s Space) Locks() string { return string(s) + locksPart }

// Lock is the prefix of all keys of a name.
func (s Space) Lock(name string) string { return string(s) + locksPart + Escape(name) + "|" }

// Held is the prefix of the grants of a name.
func (s Space) Held(name string) string {
	return string(s) + locksPart + Escape(name) + "|" + heldPart
}

// Queue is the prefix of a name's queued claims.
func (s Space) Queue(name string) string {
	return string(s) + locksPart + Escape(name) + "|" + queuePart
}

const locksPart, heldPart, queuePart = "lock|", "held|", "queue|"

// Limit is the key of a stored limit.
func (s Space) Limit(name string) string { return string(s) + "limit|" + Escape(name) + "|" }

// Session is the key of a session.
func (s Space) Session(id driver.SessionID) string { return string(s) + "session|" + id.String() }

// Wake is the key of the pushes to a session.
func (s Space) Wake(id driver.SessionID) string { return string(s) + "wake|" + id.String() }

// Handle is the key that the latest value of a session has written.
func (s Space) Handle(id driver.SessionID) string { return string(s) + "handle|" + id.String() }

// HeldOf is the prefix of a session's grants of a name.
func (s Space) HeldOf(name string, id driver.SessionID) string {
	return string(s) + locksPart + Escape(name) + "|" + heldPart + id.String() + "."
}

// QueueOf is the prefix of a session's queued claims for a name.
func (s Space) QueueOf(name string, id driver.SessionID) string {
	return string(s) + locksPart + Escape(name) + "|" + queuePart + id.String() + "."
}

// AllBroken is the prefix of a session's broken claims.
func (s Space) AllBroken(id driver.SessionID) string {
	return string(s) + "broken|" + id.String() + "|"
}

// Broken is the key of a broken grant.
func (s Space) Broken(id driver.ClaimID) string {
	return s.AllBroken(id.Session) + strconv.FormatUint(id.Seq, 10)
}

// Gone is the key that keeps a claim from being granted.
func (s Space) Gone(id driver.ClaimID) string {
	return string(s) + "gone|" + id.Session.String() + "|" + strconv.FormatUint(id.Seq, 10)
}

// End returns the key after all keys with the prefix.
func End(prefix string) []byte {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] < 0xff {
			b[i]++
			return b[:i+1]
		}
	}
	return []byte{0} // to the end of the key space
}

// Parsed is a key of a lock.
type Parsed struct {
	Name    string // as it stands in the key, with the bar at its end
	Queued  bool
	Session driver.SessionID
	Slot    int
	End     string // "", or one of the endings
}

// Parse takes a key of a lock apart.
func (s Space) Parse(key string) (p Parsed, err error) {
	rest, ok := strings.CutPrefix(key, s.Locks())
	bar := strings.IndexByte(rest, '|')
	if !ok || bar < 0 {
		return p, fmt.Errorf("%q is not the key of a lock", key)
	}
	p.Name, rest = rest[:bar+1], rest[bar+1:]
	if rest, p.Queued = strings.CutPrefix(rest, queuePart); !p.Queued {
		if rest, ok = strings.CutPrefix(rest, heldPart); !ok {
			return p, fmt.Errorf("%q is neither held nor queued", key)
		}
	}
	if plus := strings.IndexByte(rest, '+'); plus >= 0 {
		rest, p.End = rest[:plus], rest[plus:]
	}
	session, slot, ok := strings.Cut(rest, ".")
	b, err := hex.DecodeString(session)
	if err == nil && (!ok || len(b) != len(p.Session)) {
		err = fmt.Errorf("%q names no claim", key)
	}
	if err == nil {
		copy(p.Session[:], b)
		p.Slot, err = strconv.Atoi(slot)
	}
	return p, err
}

// Plain returns the name itself.
func (p *Parsed) Plain() (string, error) { return Unescape(strings.TrimSuffix(p.Name, "|")) }
