// SPDX-License-Identifier: Apache-2.0

package leases

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Handle is the secret of a session with what every server needs to continue it. It has no
// exported fields and shows no secret in a log.
type Handle struct {
	text  string
	ttl   time.Duration
	owner string
}

const (
	handlePrefix = "fls_"
	secretBytes  = 32
	// MaxOwner is how many bytes an owner has at most.
	MaxOwner = 100
)

// ErrHandle: the text is not a handle. It does not repeat the text.
var ErrHandle = errors.New("not a session of this API")

// NewHandle makes a session.
func NewHandle(ttl time.Duration, owner string) (Handle, error) {
	if !goodOwner(owner) {
		return Handle{}, fmt.Errorf("an owner has at most %d bytes of UTF-8 without control characters", MaxOwner)
	}
	raw := make([]byte, 4+secretBytes)
	binary.BigEndian.PutUint32(raw, uint32(ttl.Milliseconds()))
	rand.Read(raw[4:])
	return ParseHandle(handlePrefix + base64.RawURLEncoding.EncodeToString(append(raw, owner...)))
}

// ParseHandle reads what Text returned, here or at another server.
func ParseHandle(text string) (Handle, error) {
	digits, ok := strings.CutPrefix(text, handlePrefix)
	if !ok || len(digits) > base64.RawURLEncoding.EncodedLen(4+secretBytes+MaxOwner) {
		return Handle{}, ErrHandle
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(digits)
	if err != nil || strings.ContainsAny(digits, "\r\n") || len(raw) < 4+secretBytes || !goodOwner(string(raw[4+secretBytes:])) {
		return Handle{}, ErrHandle
	}
	return Handle{text, time.Duration(binary.BigEndian.Uint32(raw)) * time.Millisecond, string(raw[4+secretBytes:])}, nil
}

// goodOwner reports whether a text can be shown to people as the owner of a lock.
func goodOwner(owner string) bool {
	return len(owner) <= MaxOwner && utf8.ValidString(owner) && !strings.ContainsFunc(owner, unicode.IsControl)
}

// Text is the secret, for the client.
func (h Handle) Text() string { return h.text }

// TTL is how long a lease lives that its client does not name.
func (h Handle) TTL() time.Duration { return h.ttl }

// String shows no secret.
func (h Handle) String() string { return handlePrefix + "…" }

// GoString shows no secret.
func (h Handle) GoString() string { return h.String() }

// key names the session of a user. Another user that has the handle has another session.
func (h Handle) key(user string) [sha256.Size]byte {
	var key [sha256.Size]byte
	copy(key[:], h.sum("session", user))
	return key
}

// reentry is by which servers find the claim of a lease. It is in the store, where others can
// read it: it proves nothing to a server, which computes it from the handle.
func (h Handle) reentry(user, lock, id string) string {
	return "serve:" + base64.RawURLEncoding.EncodeToString(h.sum("lease", user, lock, id))
}

// escaped ends a user at the first colon: without it the user a with the owner b:x would look like the user a:b.
var escaped = strings.NewReplacer("%", "%25", ":", "%3A")

// holder names the client for people. It begins with the user, whom the client cannot choose.
func (h Handle) holder(user string) string {
	user = escaped.Replace(user)
	if h.owner != "" {
		return user + ":" + h.owner
	}
	return user + ":" + hex.EncodeToString(h.sum("owner")[:4])
}

// sum is a hash of texts under the secret. The length of each is part of it, so that no two
// lists of texts have the same.
func (h Handle) sum(texts ...string) []byte {
	mac := hmac.New(sha256.New, []byte(h.text))
	for _, text := range texts {
		mac.Write(binary.BigEndian.AppendUint32(nil, uint32(len(text))))
		mac.Write([]byte(text))
	}
	return mac.Sum(nil)
}
