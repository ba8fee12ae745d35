// SPDX-License-Identifier: Apache-2.0

// Package rediscmd is what the layouts in Redis share: what they need of a client library,
// scripts that carry a run id, and how replies and errors are read. The rest is what the adapters of all client libraries share: how a call
// ends with its context, and what an error of the way means for what was asked.
package rediscmd

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Commands are plain commands that are sent together, and the replies to them. They are used
// again for other commands: a lock and its release would otherwise cost the collector more
// than the server.
type Commands struct {
	// Transaction makes one transaction of them.
	Transaction bool
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

// Again drops the replies to an earlier sending of the same commands.
func (c *Commands) Again() { c.replies, c.read, c.short = c.replies[:0], 0, false }

// Reset makes room for other commands.
func (c *Commands) Reset() {
	clear(c.words)
	clear(c.replies)
	*c = Commands{words: c.words[:0], ends: c.ends[:0], replies: c.replies[:0]}
}

// Reader takes the values of a reply one after the other.
type Reader struct{ Rest []any }

func (r *Reader) next() any {
	if len(r.Rest) == 0 {
		r.Rest = nil
		return nil
	}
	v := r.Rest[0]
	r.Rest = r.Rest[1:]
	if r.Rest == nil {
		r.Rest = []any{}
	}
	return v
}

// Err returns an error if the reply was too short.
func (r *Reader) Err() error {
	if r.Rest == nil {
		return ErrShort
	}
	return nil
}

// Text returns the next value, a string.
func (r *Reader) Text() string { s, _ := r.next().(string); return s }

// List returns the next value, a list.
func (r *Reader) List() []any { l, _ := r.next().([]any); return l }

// Number returns the next value, a number or the text of one.
func (r *Reader) Number() int64 {
	switch v := r.next().(type) {
	case int64:
		return v
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

// Millis is a duration in milliseconds.
func (r *Reader) Millis() time.Duration { return time.Duration(r.Number()) * time.Millisecond }

// Clock is the server's, from microseconds.
func (r *Reader) Clock() time.Time { return time.UnixMicro(r.Number()) }

// Token makes a token of the store's counter.
func (r *Reader) Token() driver.Token { return driver.Token(r.Number() * driver.TokenStep) }

// Session is a session id of 16 bytes.
func (r *Reader) Session() (id driver.SessionID) { copy(id[:], r.Text()); return id }

// Record is a record in JSON.
func (r *Reader) Record() driver.Record { return RecordOf(r.Text()) }

// RecordOf reads a record from its JSON.
func RecordOf(text string) (rec driver.Record) {
	_ = json.Unmarshal([]byte(text), &rec) // another version's record is shown as far as we know it
	return rec
}

// Shown is what is kept of a claim to be shown: its record, and in ms how long its holder may
// linger.
type Shown struct {
	*driver.Record
	Linger int64 `json:"linger,omitempty"`
}

// HolderOf reads what the function shown of lib.lua wrote.
func HolderOf(v any) driver.Holder {
	list, _ := v.([]any)
	r := Reader{list}
	h := driver.Holder{Claim: driver.ClaimID{Session: r.Session(), Seq: uint64(r.Number())}}
	h.Kept = h.Claim.Session == driver.SessionID{}
	h.Token, h.Mode, h.Weight, h.Reentry = r.Token(), driver.Mode(r.Number()), r.Number(), r.Text()
	shown := Shown{Record: &h.Record}
	_ = json.Unmarshal([]byte(r.Text()), &shown) // another version's record is shown as far as we know it
	h.Linger = time.Duration(shown.Linger) * time.Millisecond
	h.Age, h.EndsIn = r.Millis(), r.Millis()
	return h
}

// WaiterOf reads a queued claim as inspect.lua wrote it.
func WaiterOf(v any) driver.Waiter {
	list, _ := v.([]any)
	r := Reader{list}
	w := driver.Waiter{Claim: driver.ClaimID{Session: r.Session(), Seq: uint64(r.Number())}}
	w.Mode, w.Weight, w.Record, w.Age = driver.Mode(r.Number()), r.Number(), r.Record(), r.Millis()
	return w
}

// Broken reads the list of broken claims, an array of numbers in MessagePack.
func (r *Reader) Broken() (seqs []uint64) {
	raw := []byte(r.Text())
	if len(raw) == 0 {
		return nil
	}
	return UnpackNumbers(raw)
}

// ErrShort is returned for a reply that ends early.
var ErrShort = errors.New("redisstore: the reply of a script is shorter than this version expects; is another version of the library in use?")

// BytesOf is a number as n bytes, the most significant first.
func BytesOf(v int64, n int) string { return string(AppendBytes(make([]byte, 0, 8), v, n)) }

// AppendBytes appends a number as n bytes, the most significant first.
func AppendBytes(b []byte, v int64, n int) []byte {
	for i := n - 1; i >= 0; i-- {
		b = append(b, byte(v>>(8*i)))
	}
	return b
}

// NumberOf is the number that BytesOf wrote.
func NumberOf(text string) (v int64) {
	for i := range len(text) {
		v = v<<8 | int64(text[i])
	}
	return v
}

// UnpackNumbers reads an array of unsigned numbers, the only MessagePack that
// leaves the scripts.
func UnpackNumbers(b []byte) (out []uint64) {
	if len(b) == 0 {
		return nil
	}
	n := 0
	switch {
	case b[0]&0xf0 == 0x90:
		n, b = int(b[0]&0x0f), b[1:]
	case b[0] == 0xdc && len(b) >= 3:
		n, b = int(binary.BigEndian.Uint16(b[1:])), b[3:]
	case b[0] == 0xdd && len(b) >= 5:
		n, b = int(binary.BigEndian.Uint32(b[1:])), b[5:]
	}
	sizes := map[byte]int{0xcc: 1, 0xcd: 2, 0xce: 4, 0xcf: 8}
	for ; n > 0 && len(b) > 0; n-- {
		size, wide := sizes[b[0]]
		if !wide {
			out, b = append(out, uint64(b[0])), b[1:]
			continue
		}
		if len(b) < 1+size {
			return out
		}
		var v uint64
		for _, d := range b[1 : 1+size] {
			v = v<<8 | uint64(d)
		}
		out, b = append(out, v), b[1+size:]
	}
	return out
}

// Client is what the stores need of a client library. Errors are classified
// with Unavailable and Unknown, or are answers of the server. A call whose context has ended
// must send nothing.
type Client interface {
	// Eval runs a script on the node that keeps keys[0]: by its SHA, with the
	// text if the server does not know it. If there is no text it must return
	// ErrNoScript then.
	Eval(ctx context.Context, s *Script, keys, args []string) ([]any, error)
	// Send sends commands at once, and once, to the node that keeps the key of the first, and
	// notes their replies. After an error it may still use the commands.
	Send(ctx context.Context, commands *Commands) error
	// Listen subscribes to a channel until ctx ends. It calls ready each time a
	// subscription was confirmed, the first time and after every gap, and
	// message for each message. It returns at once.
	Listen(ctx context.Context, channel Channel, ready func(), message func(text string))
	// Prove loads scripts into the server that keeps a key if that server has the
	// run id, and must never load them into another: it must read the run id on the
	// connection over which it then loads them, and must not replace that
	// connection in between. If the server knows all of them, another process has loaded
	// them, and nothing is sent: after a failover every process of a fleet comes at once.
	Prove(ctx context.Context, key, runID string, scripts []*Script) error
	// Nodes returns the servers that keep locks: one, or the masters of a
	// cluster.
	Nodes(ctx context.Context) ([]Node, error)
	// Sharded reports whether the client is one of a cluster, which has sharded channels.
	Sharded() bool
}

// Channel is where messages are published. One that is Sharded is on the node of its slot: only a cluster has them. A message to
// another one reaches all nodes.
type Channel struct {
	Name    string
	Sharded bool
}

// Node is one server, asked directly.
type Node struct {
	Addr string
	// Ask sends the same command over several connections that are open at the
	// same time, so that a proxy cannot hide that there are several servers. It
	// may use fewer where the client's pool is small.
	Ask func(ctx context.Context, connections int, args ...string) ([]any, error)
}
