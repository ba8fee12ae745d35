// SPDX-License-Identifier: Apache-2.0

package access

import (
	"fmt"
	"slices"
	"strings"
)

// Right is what a caller may do with a lock.
type Right string

// The rights. None includes another.
const (
	See         Right = "see"
	Take        Right = "take"
	ForceUnlock Right = "force-unlock"
)

// Rights are all of them.
var Rights = []Right{See, Take, ForceUnlock}

// UnmarshalText rejects unknown rights.
func (r *Right) UnmarshalText(text []byte) error {
	if !slices.Contains(Rights, Right(text)) {
		return fmt.Errorf("%q is not a right; use see, take or force-unlock", text)
	}
	*r = Right(text)
	return nil
}

// Grant is rights on all locks whose name begins with a prefix. The empty prefix is all
// locks.
type Grant struct {
	Prefix string  `json:"prefix"`
	May    []Right `json:"may"`
}

// Caller is who makes a request.
type Caller struct {
	Name   string  `json:"name"`
	Grants []Grant `json:"rights"`
}

// Local is the caller of a server without a file of users.
var Local = Caller{Name: "local", Grants: []Grant{{May: []Right{See}}}}

// May reports whether the caller has a right on a lock.
func (c *Caller) May(r Right, name string) bool {
	return slices.ContainsFunc(c.Grants, func(g Grant) bool { return strings.HasPrefix(name, g.Prefix) && slices.Contains(g.May, r) })
}

// Sees is May(See, name).
func (c *Caller) Sees(name string) bool { return c.May(See, name) }

// Scope is the same for callers that see the same prefixes.
func (c *Caller) Scope() string {
	var prefixes []string
	for _, g := range c.Grants {
		if slices.Contains(g.May, See) {
			prefixes = append(prefixes, g.Prefix)
		}
	}
	slices.Sort(prefixes)
	return fmt.Sprintf("%q", slices.Compact(prefixes))
}
