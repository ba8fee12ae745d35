// SPDX-License-Identifier: Apache-2.0

package native

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// replyOf makes a reply of bytes: numbers, texts, empty values and lists of these.
func replyOf(b *bytes.Reader, depth int) (list []any) {
	for b.Len() > 0 {
		kind, _ := b.ReadByte()
		switch {
		case kind < 16:
			text := make([]byte, int(kind)*5)
			n, _ := b.Read(text)
			list = append(list, string(text[:n]))
		case kind < 32:
			var n int64
			_ = binary.Read(b, binary.BigEndian, &n)
			list = append(list, n)
		case kind < 40:
			list = append(list, nil)
		case kind < 48 && depth < 4:
			list = append(list, replyOf(b, depth+1))
		case kind < 56 && depth > 0:
			return list
		default:
			words := []string{"GRANTED", "QUEUED", "BUSY", "ABSENT", "WAITING", "OK", "GONE", "RESET", "REFUSED", "VACANT"}
			list = append(list, words[int(kind)%len(words)])
		}
	}
	return list
}

// FuzzReplies: whatever a script answers, or something that stands between, reading it does
// not panic, and no claim is taken for granted without the word.
func FuzzReplies(f *testing.F) {
	for _, seed := range []string{"", "\x00", "8", "9\x20\x20", "<\x10\x00\x00\x00\x00\x00\x00\x00\x01", "=((0000", "A", "A\x01five5", "\x017 1", "\x28\x28\x28\x28\x28"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		reply := replyOf(bytes.NewReader(raw), 0)
		if verdict(reply) == nil {
			if out, _, err := outcome(reply); err == nil && out.State == driver.Granted && reply[0] != "GRANTED" {
				t.Errorf("%q is taken for granted", reply)
			}
			_, _ = removed(reply)
			_, _, _ = statuses(reply, []string{"a", "b"})
		}
		r := rediscmd.Reader{Rest: reply}
		_ = r.Broken()
		_ = r.Session()
		sent := batch{operations: []*operation{{}, {release: true}}}
		if _, err := sent.read(reply); err == nil && (len(reply) != 1 || len(strings.Fields(reply[0].(string))) != 3) {
			t.Errorf("%q is read as the reply to two operations", reply)
		}
	})
}

// FuzzNumbers: a list of numbers in MessagePack is read as it was written, and anything
// else does not panic.
func FuzzNumbers(f *testing.F) {
	f.Add([]byte{0x93, 1, 0xcc, 200, 0xcd, 1, 2}, uint64(1), uint64(1<<33))
	f.Add([]byte{0xdd, 0xff, 0xff, 0xff, 0xff}, uint64(127), uint64(128))
	f.Add([]byte{0xdc, 0, 1, 0xcf, 1}, uint64(0), uint64(1<<63))
	f.Fuzz(func(t *testing.T, raw []byte, a, b uint64) {
		if got := rediscmd.UnpackNumbers(raw); len(got) > len(raw) {
			t.Errorf("%d bytes are read as %d numbers", len(raw), len(got))
		}
		written := []byte{0x92}
		for _, v := range []uint64{a, b} {
			if v < 128 {
				written = append(written, byte(v))
				continue
			}
			written = binary.BigEndian.AppendUint64(append(written, 0xcf), v)
		}
		if got := rediscmd.UnpackNumbers(written); !slices.Equal(got, []uint64{a, b}) {
			t.Errorf("%d and %d are read as %v", a, b, got)
		}
	})
}

// FuzzFields: what is in a field or in a message does not panic a reader, and a layout is
// read only if it is written the same.
func FuzzFields(f *testing.F) {
	f.Add("v2 buckets=1")
	f.Add("v2 buckets=032")
	f.Add("v3 anything")
	f.Add("X" + rediscmd.BytesOf(2, 6) + "0123456789abcdef" + rediscmd.BytesOf(3, 6) + rediscmd.BytesOf(4, 7) + rediscmd.BytesOf(5, 7) + `{"o":"me"}`)
	f.Add(rediscmd.BytesOf(1, 6) + rediscmd.BytesOf(2, 7))
	f.Fuzz(func(t *testing.T, text string) {
		if s, ok := parseLayout(text); ok && (s.String() != text || s.buckets < 1) {
			t.Errorf("%q is read as %v", text, s)
		}
		_ = (&layoutError{theirs: text}).Error()
		_ = rediscmd.RecordOf(text)
		s := &session{tail: string(make([]byte, 14)), claims: &claims{}}
		k, _, _ := s.claims.begin(&claim{seq: 1})
		s.message(text)
		if len(text) != 13 && len(text) != 19 && k.early != nil {
			t.Errorf("%q is taken for a push", text)
		}
	})
}
