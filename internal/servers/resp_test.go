// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
)

// TestReplies: each kind of reply is read, and a reply that is cut short is an error.
func TestReplies(t *testing.T) {
	for text, want := range map[string]string{
		"+OK\r\n":                             "OK",
		":-12\r\n":                            "-12",
		"$5\r\na\r\nbc\r\n":                   "a\r\nbc",
		"$-1\r\n":                             "<nil>",
		"*-1\r\n":                             "<nil>",
		"*0\r\n":                              "[]",
		"*3\r\n:1\r\n*1\r\n+a\r\n-ERR no\r\n": "[1 [a] ERR no]",
		"-ERR unknown\r\n":                    "ERR unknown",
	} {
		got, err := readReply(bufio.NewReader(strings.NewReader(text)))
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%q: got %v, %v, want %s", text, got, err, want)
		}
		if got, err := readReply(bufio.NewReader(strings.NewReader(text[:len(text)-1]))); err == nil {
			t.Errorf("%q without its end: got %v, want an error", text, got)
		}
	}
	for _, text := range []string{"\r\n", "?1\r\n", "$x\r\n", "$99999999999\r\n"} {
		if got, err := readReply(bufio.NewReader(strings.NewReader(text))); err == nil {
			t.Errorf("%q: got %v, want an error", text, got)
		}
	}
}

// TestReplyKinds: an answer of another kind than was asked for is an error, and so is an
// error of the server.
func TestReplyKinds(t *testing.T) {
	if n, err := (Reply{value: int64(3)}).Int(); n != 3 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
	if s, err := (Reply{value: int64(3)}).Text(); err == nil {
		t.Errorf("got %q for a number", s)
	}
	if s, err := (Reply{}).Text(); err == nil {
		t.Errorf("got %q for nothing", s)
	}
	if got := (Reply{value: []any{"a", int64(1), "b"}}).Pairs(); len(got) != 1 || got["a"] != "1" {
		t.Errorf("got %v", got)
	}
	if _, err := (Reply{err: fmt.Errorf("ERR")}).Slice(); err == nil || err.Error() != "ERR" {
		t.Errorf("got %v", err)
	}
}
