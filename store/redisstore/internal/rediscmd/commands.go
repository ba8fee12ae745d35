// SPDX-License-Identifier: Apache-2.0

package rediscmd

import (
	"errors"
	"strconv"

	"github.com/fencelock/fencelock/driver"
)

// Commands are plain commands that are sent together, and the replies to them. They are used
// again for other commands: a lock and its release would otherwise cost the collector more
// than the server.
type Commands struct {
	// Transaction makes one transaction of them, but for the first Outside, which need none.
	Transaction bool
	Outside     int
	words       []string
	ends        []int // of each command in words
	replies     []Reply
	read        int // replies that were taken
	short       bool
}

// Reply is a value of a reply: a text, a number, or neither if there is no value.
type Reply struct {
	Text   string
	Number int64
}

// Keyed reports whether the word behind the name of a command is its key.
func Keyed(command []string) bool { return command[0] != "SCRIPT" && command[0] != "TIME" }

// Add adds a command.
func (c *Commands) Add(words ...string) {
	c.words = append(c.words, words...)
	c.ends = append(c.ends, len(c.words))
}

// Len is how many commands there are.
func (c *Commands) Len() int { return len(c.ends) }

// Command returns the words of a command.
func (c *Commands) Command(i int) []string {
	from := 0
	if i > 0 {
		from = c.ends[i-1]
	}
	return c.words[from:c.ends[i]]
}

// Replied notes a value. The values of a list are noted one after the other.
func (c *Commands) Replied(r Reply) { c.replies = append(c.replies, r) }

// Text takes the next value.
func (c *Commands) Text() string { return c.next().Text }

// Number takes the next value, a number or the text of one.
func (c *Commands) Number() int64 {
	r := c.next()
	if r.Text != "" {
		n, _ := strconv.ParseInt(r.Text, 10, 64)
		return n
	}
	return r.Number
}

// Rest is how many values were not taken.
func (c *Commands) Rest() int { return len(c.replies) - c.read }

func (c *Commands) next() Reply {
	if c.read == len(c.replies) {
		c.short = true
		return Reply{}
	}
	c.read++
	return c.replies[c.read-1]
}

// Err returns an error if values were taken that are not there.
func (c *Commands) Err() error {
	if c.short {
		return errors.Join(driver.ErrUnknown, ErrShort)
	}
	return nil
}

// Reset makes room for other commands.
func (c *Commands) Reset() {
	clear(c.words)
	clear(c.replies)
	*c = Commands{words: c.words[:0], ends: c.ends[:0], replies: c.replies[:0]}
}
