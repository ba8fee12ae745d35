// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fencelock/fencelock/driver"
)

// Recipe is a recipe of Curator. Locks of two recipes do not see each other, so a path has one.
type Recipe uint8

const (
	// Mutex is InterProcessMutex and LeaderSelector, zk.Lock of go-zookeeper, and Lock of kazoo.
	Mutex Recipe = iota
	// ReadWrite is InterProcessReadWriteLock.
	ReadWrite
	// Latch is LeaderLatch.
	Latch
)

// Curator is the layout of Apache Curator's recipes: a lock is the node that Java was given, and
// every child of it is a contender.
//
//	<Root>/<name>/_c_<session>-<claim>-lock-0000000007
//
// Other programs read the word before the number and the number, nothing before. So session and
// claim stand there, in the form of the id that Curator puts there.
type Curator struct {
	// Root is put before every name; it may be empty.
	Root   string
	Recipe Recipe
	// Map makes the path of a lock from its name, if it is not nil.
	Map func(name string) string
	// Persistent makes missing parents persistent, not containers.
	Persistent bool
	// Revoke makes queued claims ask holders that are revocable to release.
	Revoke bool
	// Sessions is the node below which sessions are kept. No lock can be there.
	Sessions string
	// Fencing, Assumes and Advice are those of Caps.
	Fencing         driver.Fencing
	Assumes, Advice string
}

func (k *Curator) caps() driver.Caps {
	return driver.Caps{
		Fencing: k.Fencing, Shared: k.Recipe == ReadWrite, NoLimits: k.Recipe == ReadWrite, Listing: k.Map == nil,
		Assumes: k.Assumes, Advice: k.Advice,
	}
}

func (*Curator) alone() bool { return false }

// revokes leaves out LeaderLatch: the data of its node is the id of the participant, which may be empty.
func (k *Curator) revokes() bool { return k.Revoke && k.Recipe != Latch }

func (*Curator) above() []string { return nil }

func (k *Curator) lock(name string) string {
	if k.Map != nil {
		name = k.Map(name)
	}
	return k.Root + "/" + name
}

func (k *Curator) refuses(name string) error {
	path := k.lock(name)
	switch {
	case !goodPath(path):
		return fmt.Errorf("%q is not a path of ZooKeeper; write the path that Java was given, without the first slash: %w", path, driver.ErrRefused)
	case path == k.Sessions || strings.HasPrefix(path, k.Sessions+"/"):
		return fmt.Errorf("%s is where sessions are kept; use another name: %w", path, driver.ErrRefused)
	}
	return nil
}

// goodPath is what ZooKeeper accepts as a path. It checks halves of UTF-16, so no character above
// U+FFFF is one.
func goodPath(path string) bool {
	if !utf8.ValidString(path) || !strings.HasPrefix(path, "/") {
		return false
	}
	for name := range strings.SplitSeq(path[1:], "/") {
		if name == "" || name == "." || name == ".." {
			return false
		}
	}
	return !strings.ContainsFunc(path, func(r rune) bool {
		return r <= 0x1f || r >= 0x7f && r <= 0x9f || r >= 0xd800 && r <= 0xf8ff || r >= 0xfff0
	})
}

func (k *Curator) unfit(t *driver.Terms) error {
	switch {
	case t.Limit > 0:
		return fmt.Errorf("semaphores are not shared with Curator: %w", driver.ErrUnsupported)
	case t.Reentry != "":
		return fmt.Errorf("ReentrantAs is not shared with Curator: %w", driver.ErrUnsupported)
	case t.Mode == driver.Shared && k.Recipe != ReadWrite:
		return fmt.Errorf("readers need a store of read-write locks (Options.Recipe, recipe=readwrite in a URL): %w", driver.ErrUnsupported)
	}
	return nil
}

// word is what stands before the number of a claim.
func (k *Curator) word(mode driver.Mode) string {
	switch {
	case k.Recipe == Latch:
		return "latch-"
	case k.Recipe == Mutex:
		return "lock-"
	case mode == driver.Shared:
		return "__READ__"
	default:
		return "__WRIT__"
	}
}

func (k *Curator) prefix(n node) string {
	s := n.session
	token := ""
	if n.token != 0 {
		token = n.token.String() + "-"
	}
	return fmt.Sprintf("_c_%s-%s-%s-%s-%s-%d-%s%s", s[:8], s[8:12], s[12:16], s[16:20], s[20:], n.seq, token, k.word(n.mode))
}

// maxPlace is the last number that is used. ZooKeeper counts on to 2^31-1 and then to negative
// numbers, which Curator orders wrongly: two would hold. The distance is for the claims that
// several processes make before they read.
const maxPlace = 1<<31 - 1<<20

// maxKey is what Curator sorts the last claim by. A child with a higher key is behind every claim.
const maxKey = "2147483647"

func (k *Curator) arrange(children []string) (claims, extra []node, strange error) {
	claims, extra = arrange(children, func(name string) (node, bool) {
		n, word, ok := contender(name)
		switch {
		case ok && !slices.Contains(k.words(), word):
			strange = fmt.Errorf("%s is a claim of another recipe (%s); a path can have one recipe: %w", name, strings.Trim(word, "-_"), driver.ErrRefused)
		case ok && (n.place < 0 || n.place >= maxPlace):
			strange = fmt.Errorf("%s is near the end of ZooKeeper's counter; stop all programs that use this lock, delete its node and start them again: %w", name, driver.ErrRefused)
		case !ok && k.key(name) <= maxKey:
			strange = fmt.Errorf("%s is not a claim, and Curator may take it for the holder; delete it: %w", name, driver.ErrRefused)
		}
		return n, ok
	})
	return claims, extra, strange
}

// words are those of the claims that count.
func (k *Curator) words() []string {
	switch k.Recipe {
	case ReadWrite:
		return []string{"__READ__", "__WRIT__"}
	case Latch:
		return []string{"latch-"}
	default:
		return []string{"lock-", "__lock__"} // the second is kazoo's
	}
}

// key is what Curator sorts a child by.
func (k *Curator) key(name string) string {
	for _, word := range []string{"lock-", "latch-", "__READ__", "__WRIT__"} {
		if i := strings.LastIndex(name, word); i >= 0 && slices.Contains(k.words(), word) {
			name = name[i+len(word):]
		}
	}
	return name
}
