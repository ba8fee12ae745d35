// SPDX-License-Identifier: Apache-2.0

package otelfencelock

import (
	"strings"
	"sync"
	"unicode"
)

// otherClass stands for all classes beyond the bound.
const otherClass = "other"

// Template makes a class of a name by its shape: every part that has a digit
// becomes {id}, so that orders/42/pay is orders/{id}/pay. Parts are split at
// slash, colon, dot, underscore, hash and space, and an id with dashes, such as a
// UUID, is one part. What follows an @ is left out: Client.Once locks name@occurrence, so
// that report@2026-11-17T03:00:00Z is report. It is a guess: names with ids that have no
// digit, such as users/ann, need a function of your own.
func Template(lock string) string {
	lock = beforeOccurrence(lock)
	var b strings.Builder
	part := func(p string) {
		if strings.IndexFunc(p, unicode.IsDigit) >= 0 {
			p = "{id}"
		}
		b.WriteString(p)
	}
	for {
		i := strings.IndexAny(lock, "/:._# ")
		if i < 0 {
			part(lock)
			return b.String()
		}
		part(lock[:i])
		b.WriteByte(lock[i])
		lock = lock[i+1:]
	}
}

// beforeOccurrence returns the name that was given to Once, up to an @ that it may have, as
// OnceEnd has the name. Once writes an @ in a name as %40. A name that begins with an @ is
// returned as it is.
func beforeOccurrence(lock string) string {
	name, _, found := strings.Cut(lock, "@")
	if !found || name == "" {
		return lock
	}
	name, _, _ = strings.Cut(strings.NewReplacer("%40", "@", "%25", "%").Replace(name), "@")
	return name
}

// classes maps names to a bounded number of classes.
type classes struct {
	of   func(string) string
	most int
	// fresh is called with each class when it is first seen.
	fresh func(class string)

	mu   sync.RWMutex
	seen map[string]bool
}

// class returns the class of a name. The answer for a name never changes: what
// was counted up under a class must be counted down under it. It holds because
// classes are only ever added, and only while there is room.
func (c *classes) class(lock string) string {
	if c.of == nil {
		return ""
	}
	class := c.ask(lock)
	if class == "" {
		return ""
	}
	c.mu.RLock()
	known, full := c.seen[class], len(c.seen) >= c.most
	c.mu.RUnlock()
	switch {
	case known:
		return class
	case full:
		return otherClass
	}
	return c.add(class)
}

// ask returns what the caller's function returns. If it panics, the class is "other": the
// panic would reach callers that only lock, and end the process on a goroutine of the client.
func (c *classes) ask(lock string) (class string) {
	defer func() {
		if recover() != nil {
			class = otherClass
		}
	}()
	return c.of(lock)
}

func (c *classes) add(class string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.seen[class]:
		return class
	case len(c.seen) >= c.most:
		return otherClass
	}
	if c.seen == nil {
		c.seen = map[string]bool{}
	}
	c.seen[class] = true
	c.fresh(class)
	if len(c.seen) == c.most {
		c.fresh(otherClass)
	}
	return class
}
