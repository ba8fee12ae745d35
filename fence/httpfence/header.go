// SPDX-License-Identifier: Apache-2.0

package httpfence

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
)

// Header is the name of the header that carries a mark:
//
//	Fencing-Token: orders%2F42;768;ann%40host:7
//
// The name of the lock, the token as a decimal number, and the holder, which may
// be left out. Name and holder are escaped with % as in the path of a URL.
const Header = "Fencing-Token"

// Format returns the mark as the header has it.
func Format(m fence.Mark) string {
	text := escape(m.Lock) + ";" + m.Token.String()
	if m.Holder != "" {
		text += ";" + escape(m.Holder)
	}
	return text
}

// escape leaves no separator and nothing that a header cannot carry.
func escape(s string) string { return strings.ReplaceAll(url.PathEscape(s), ";", "%3B") }

// Parse reads what Format wrote. Its errors wrap fence.ErrNoToken.
func Parse(text string) (fence.Mark, error) {
	bad := func(why any) (fence.Mark, error) {
		return fence.Mark{}, fmt.Errorf("%w: the header %s is %q, want lock;token: %v", fence.ErrNoToken, Header, text, why)
	}
	fields := strings.Split(text, ";")
	if len(fields) < 2 || len(fields) > 3 {
		return bad("two or three fields")
	}
	lock, err := url.PathUnescape(fields[0])
	if err != nil || lock == "" {
		return bad("the lock has no name that can be read")
	}
	token, err := strconv.ParseUint(fields[1], 10, 63)
	if err != nil || token == 0 {
		return bad("a token is a positive number of 63 bits")
	}
	m := fence.Mark{Lock: lock, Token: fencelock.Token(token)}
	if len(fields) == 3 {
		if m.Holder, err = url.PathUnescape(fields[2]); err != nil {
			return bad(err)
		}
	}
	return m, nil
}
