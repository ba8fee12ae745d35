// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// node is a claim as the name of its node describes it. What decides about grants is in
// the name, so that one answer, the children of a lock, is enough to decide:
//
//	<session>.<number>.<mode>.<weight>.<limit>.<reentry>.<token>_<place>
//
// The place is the sequence number that ZooKeeper appended, or, for a claim that
// joined or replaced another one, the place of that one. Then the token stands in
// the name, too; otherwise it is made of the node's czxid.
type node struct {
	session string
	seq     uint64
	mode    driver.Mode
	weight  int64
	limit   int64
	reentry string // a digest, "" for none
	token   driver.Token
	place   int32
	// foreign is set for a claim of another program, which has no session here.
	foreign bool

	name string // as in ZooKeeper; "" if not created yet
}

// describe returns the node of a claim, without a place.
func describe(session string, c *driver.Claim) node {
	return node{session: session, seq: c.Seq, mode: c.Terms.Mode, weight: c.Terms.Weight,
		limit: c.Terms.Limit, reentry: digest(c.Terms.Reentry)}
}

// terms returns as much of the claim's terms as the admission rule reads.
func (n *node) terms() *driver.Terms {
	return &driver.Terms{Mode: n.mode, Weight: n.weight, Limit: n.limit, Reentry: n.reentry}
}

// digest shortens a Reentry so that it fits a name.
func digest(reentry string) string {
	if reentry == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(reentry))
	return hex.EncodeToString(sum[:16])
}

// prefix is the name up to the place.
func (n node) prefix() string {
	mode, reentry, token := "x", "-", "-"
	if n.mode == driver.Shared {
		mode = "s"
	}
	if n.reentry != "" {
		reentry = n.reentry
	}
	if n.token != 0 {
		token = n.token.String()
	}
	return fmt.Sprintf("%s.%d.%s.%d.%d.%s.%s_", n.session, n.seq, mode, n.weight, n.limit, reentry, token)
}

// parse reads a name. It returns false for what is no claim.
func parse(name string) (node, bool) {
	n := node{name: name}
	text, place, ok := strings.Cut(name, "_")
	f := strings.Split(text, ".")
	if !ok || len(f) != 7 || len(f[0]) != 32 {
		return n, false
	}
	var errs [5]error
	n.session = f[0]
	n.seq, errs[0] = strconv.ParseUint(f[1], 10, 64)
	n.weight, errs[1] = strconv.ParseInt(f[3], 10, 64)
	n.limit, errs[2] = strconv.ParseInt(f[4], 10, 64)
	if f[2] == "s" {
		n.mode = driver.Shared
	}
	if f[5] != "-" {
		n.reentry = f[5]
	}
	if f[6] != "-" {
		var token int64
		token, errs[3] = strconv.ParseInt(f[6], 10, 64)
		n.token = driver.Token(token)
	}
	// The counter of ZooKeeper has 32 bits and becomes negative after 2^31.
	where, err := strconv.ParseInt(place, 10, 32)
	n.place, errs[4] = int32(where), err
	return n, !slices.ContainsFunc(errs[:], func(err error) bool { return err != nil })
}

// is reports whether the node is this claim's.
func (n node) is(session string, seq uint64) bool {
	return !n.foreign && n.session == session && n.seq == seq
}

// before orders places by their difference, so that the order survives the overflow
// of the counter as long as the queued claims are fewer than 2^31.
func before(a, b int32) int { return cmp.Compare(a-b, 0) }

// arrange puts the claims among the children of a lock into the order of the queue. A
// claim whose creation was repeated has several nodes; the first counts, the others
// are returned as extra.
func arrange(children []string, read func(name string) (node, bool)) (claims, extra []node) {
	for _, name := range children {
		if n, ok := read(name); ok {
			claims = append(claims, n)
		}
	}
	slices.SortFunc(claims, func(a, b node) int {
		return cmp.Or(before(a.place, b.place), strings.Compare(a.name, b.name))
	})
	type id struct {
		session string
		seq     uint64
	}
	seen := map[id]bool{}
	kept := claims[:0]
	for _, n := range claims {
		if k := (id{n.session, n.seq}); n.foreign {
			kept = append(kept, n)
		} else if seen[k] {
			extra = append(extra, n)
		} else {
			seen[k] = true
			kept = append(kept, n)
		}
	}
	return kept, extra
}

// tokenStep is the distance of the tokens of two neighboring transactions. It is
// two steps of the contract: the one in the middle is for Break, whose fence must
// lie above a holder and below the next in the queue, whose claims may be neighbors.
const tokenStep = 2 * driver.TokenStep

// maxZxid is the first transaction whose token does not fit. The upper half of a
// zxid counts the leaders an ensemble has had, the lower half what each has done,
// so it is reached with the 4,194,304th leader: after a year and four months of
// one election every ten seconds.
const maxZxid = 1 << 54

// tokenOf returns the token of a claim created by a transaction. The error has no package name.
func tokenOf(czxid int64) (driver.Token, error) {
	if czxid <= 0 || czxid >= maxZxid {
		return 0, fmt.Errorf("the transaction id %#x is too high for a token of 63 bits; restore the data into a fresh ensemble, and raise the fences at the resources: %w", czxid, driver.ErrRefused)
	}
	return driver.Token(czxid * tokenStep), nil
}

// fenceBelow returns a token above every claim that came before the one created by
// czxid, and below that one's.
func fenceBelow(czxid int64) driver.Token {
	return driver.Token(czxid*tokenStep) - driver.TokenStep
}

// fenceAbove returns a token above every claim created up to zxid, and below every
// later one's.
func fenceAbove(zxid int64) driver.Token {
	return driver.Token(zxid*tokenStep) + driver.TokenStep
}
