// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// A Reply is the answer to a command of Redis: a string, an int64, nil, a list of these,
// or an error.
type Reply struct {
	value any
	err   error
}

// maxReply bounds what is read of one answer.
const maxReply = 64 << 20

// ask sends one command to a Redis server on a new connection.
func ask(addr string, args ...any) Reply {
	conn, err := net.DialTimeout("tcp", addr, replyWithin)
	if err != nil {
		return Reply{err: err}
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(replyWithin))
	request := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		word := fmt.Sprint(a)
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(word), word)
	}
	if _, err := conn.Write(request); err != nil {
		return Reply{err: err}
	}
	value, err := readReply(bufio.NewReader(conn))
	if failed, ok := value.(error); ok {
		value, err = nil, failed
	}
	return Reply{value, err}
}

// readReply reads one value of RESP2. An error of the server is a value: it may be in a
// list.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("empty line in place of a reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return errors.New(rest), nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil || kind != ':' && n > maxReply {
		return nil, fmt.Errorf("unknown reply %q: %w", line, err)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		text := make([]byte, n+2)
		_, err := io.ReadFull(r, text)
		return string(text[:n]), err
	case kind == '*':
		list := []any{}
		for range n {
			v, err := readReply(r)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return list, nil
	}
	return nil, fmt.Errorf("unknown reply %q", line)
}

// Err is the error of the server or of the connection.
func (r Reply) Err() error { return r.err }

// Val is the answer, or nil.
func (r Reply) Val() any { return r.value }

// Text is an answer that is a string.
func (r Reply) Text() (string, error) { return as[string](r) }

// Int is an answer that is a number.
func (r Reply) Int() (int, error) {
	n, err := as[int64](r)
	return int(n), err
}

// Slice is an answer that is a list.
func (r Reply) Slice() ([]any, error) { return as[[]any](r) }

// StringSlice is an answer that is a list of strings.
func (r Reply) StringSlice() ([]string, error) {
	list, err := as[[]any](r)
	var words []string
	for _, v := range list {
		words = append(words, fmt.Sprint(v))
	}
	return words, err
}

// Pairs is an answer that lists names and values.
func (r Reply) Pairs() map[string]string { return pairs(r.value) }

func pairs(value any) map[string]string {
	list, _ := value.([]any)
	out := map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		out[fmt.Sprint(list[i])] = fmt.Sprint(list[i+1])
	}
	return out
}

func as[T any](r Reply) (v T, err error) {
	v, ok := r.value.(T)
	if r.err == nil && !ok {
		return v, fmt.Errorf("the server answered %v, which is not %T", r.value, v)
	}
	return v, r.err
}
