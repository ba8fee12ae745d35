// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// recipeWords are what stands before the number, in Curator and kazoo.
var recipeWords = []string{"lock-", "latch-", "lease-", "__READ__", "__WRIT__", "__lock__", "__rlock__"}

// contender reads the name of a claim's node, ours or one of another program, and returns the word
// before its number. It returns false for what is not a claim.
//
//	_c_<8-4-4-4-12>-<claim>-lock-0000000007           fencelock
//	_c_<8-4-4-4-12>-<claim>-<token>-__READ__…         fencelock, downgraded
//	_c_<8-4-4-4-12>-lock-0000000007                   Curator
//	_c_<32 digits>-lock-0000000007                    zk.Lock of go-zookeeper
//	<32 digits>__lock__0000000007                     kazoo
func contender(name string) (n node, word string, ok bool) {
	n = node{name: name, weight: 1, foreign: true}
	digits := len(name)
	for digits > 0 && name[digits-1] >= '0' && name[digits-1] <= '9' {
		digits--
	}
	if len(name)-digits < 10 {
		return n, "", false
	}
	rest, number := name[:len(name)-10], name[len(name)-10:]
	if strings.HasSuffix(rest, "--") || strings.HasSuffix(rest, "__-") { // after 2^31 claims
		rest, number = rest[:len(rest)-1], "-"+number
	}
	for _, w := range recipeWords {
		if strings.HasSuffix(rest, w) && len(w) > len(word) {
			word = w
		}
	}
	place, err := strconv.ParseInt(number, 10, 32)
	if word == "" || err != nil {
		return n, "", false
	}
	n.place = int32(place)
	if word == "__READ__" || word == "__rlock__" {
		n.mode = driver.Shared
	}
	n.identify(strings.TrimSuffix(rest, word))
	return n, word, true
}

// identify reads what stands before the word: the id, and for our own claims number and token.
func (n *node) identify(text string) {
	text = strings.TrimPrefix(text, "_c_")
	size := min(len(text), 32)
	if len(text) >= 36 && text[8] == '-' {
		size = 36
	}
	id, text := strings.ReplaceAll(text[:size], "-", ""), text[size:]
	if raw, err := hex.DecodeString(id); err != nil || len(raw) != 16 {
		return
	}
	n.session = id
	parts := strings.Split(strings.Trim(text, "-"), "-")
	seq, err := strconv.ParseUint(parts[0], 10, 64)
	if err != nil || len(parts) > 2 || len(text) > 0 && text[0] != '-' {
		return
	}
	if len(parts) == 2 {
		token, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil {
			return
		}
		n.token = driver.Token(token)
	}
	n.seq, n.foreign = seq, false
}
