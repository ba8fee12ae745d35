// SPDX-License-Identifier: Apache-2.0

package drivertest

import (
	"fmt"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// Case is one test of one clause. It is data: which clause, what it needs, what
// it does.
type Case struct {
	// Clause is the clause a failure of this case violates.
	Clause Clause
	// Name is the clause and a short name: "S3/expires".
	Name string

	needs []need
	body  func(*scene)
}

// Cases returns all cases in the order of docs/spec.md.
func Cases() []Case {
	groups := [][]spec{
		sessionCases, ownershipCases, sharingCases, nameCases, tokenCases, queueCases,
		floorCases, waitingCases, noticeCases, limitCases, holdCases, unknownCases, silenceCases,
		dataLossCases, reclaimCases, dropCases, failoverCases, inspectCases, breakCases,
	}
	byClause := map[string][]spec{}
	for _, g := range groups {
		for _, s := range g {
			byClause[s.clause] = append(byClause[s.clause], s)
		}
	}
	var all []Case
	for _, c := range clauses {
		for _, s := range byClause[c.ID] {
			all = append(all, Case{Clause: c, Name: s.clause + "/" + s.name, needs: s.needs, body: s.body})
		}
	}
	return all
}

// spec is how the files of this package write a case down.
type spec struct {
	clause string
	name   string
	needs  []need
	body   func(*scene)
}

// Source returns where the case is written down, as "file.go:12".
func (c Case) Source() string {
	pc := reflect.ValueOf(c.body).Pointer()
	file, line := runtime.FuncForPC(pc).FileLine(pc)
	return fmt.Sprintf("%s:%d", filepath.Base(file), line)
}

// Disrupts reports whether the case makes the server lose its data or fall silent,
// which disturbs other users of the server.
func (c Case) Disrupts() bool {
	return slices.ContainsFunc(c.needs, func(n need) bool { return strings.HasPrefix(n.what, "Harness.") })
}

// unmet returns why the case is skipped, or "".
func (c Case) unmet(h *Harness, caps driver.Caps) string {
	var missing []string
	for _, n := range c.needs {
		if !n.met(h, caps) {
			missing = append(missing, n.what)
		}
	}
	if missing == nil {
		return ""
	}
	return "needs " + strings.Join(missing, " and ")
}

// need is something a case cannot do without.
type need struct {
	what string
	met  func(*Harness, driver.Caps) bool
}

var (
	fencing = need{"tokens (Caps.Fencing)", func(_ *Harness, c driver.Caps) bool { return c.Fencing != driver.NoFencing }}
	queue   = need{"Caps.Queue", func(_ *Harness, c driver.Caps) bool { return c.Queue }}
	push    = need{"Caps.Push", func(_ *Harness, c driver.Caps) bool { return c.Push }}
	noPush  = need{"a store without Caps.Push", func(_ *Harness, c driver.Caps) bool { return !c.Push }}
	atOnce  = need{"Caps.Contended at once", func(_ *Harness, c driver.Caps) bool { return c.Contended == driver.NoticeAtOnce }}
	atKeep  = need{"a store without notices before the next renewal (Caps.Contended)", func(_ *Harness, c driver.Caps) bool { return c.Contended == driver.NoticeAtRenewal }}
	noticed = need{"Caps.Contended", func(_ *Harness, c driver.Caps) bool { return c.Contended != driver.NoNotice }}
	lingers = need{"Caps.Linger", func(_ *Harness, c driver.Caps) bool { return c.Linger }}
	sharing = need{"Caps.Shared", func(_ *Harness, c driver.Caps) bool { return c.Shared }}
	limits  = need{"Caps.Shared with limits", func(_ *Harness, c driver.Caps) bool { return c.Shared && !c.NoLimits }}
	reentry = need{"Caps.Reentry", func(_ *Harness, c driver.Caps) bool { return c.Reentry }}
	holds   = need{"Caps.Hold", func(_ *Harness, c driver.Caps) bool { return c.Hold }}
	floor   = need{"Caps.Floor", func(_ *Harness, c driver.Caps) bool { return c.Floor }}
	listing = need{"Caps.Listing", func(_ *Harness, c driver.Caps) bool { return c.Listing }}
	grace   = need{"Caps.Grace", func(_ *Harness, c driver.Caps) bool { return c.Grace }}
	noGrace = need{"a store without Caps.Grace", func(_ *Harness, c driver.Caps) bool { return !c.Grace }}
	minTTL  = need{"Caps.MinTTL", func(_ *Harness, c driver.Caps) bool { return c.MinTTL > 1 }}
	maxTTL  = need{"Caps.MaxTTL", func(_ *Harness, c driver.Caps) bool { return c.MaxTTL > 0 }}
	reset   = need{"Harness.Reset", func(h *Harness, _ driver.Caps) bool { return h.Reset != nil }}
	restart = need{"Harness.Restart", func(h *Harness, _ driver.Caps) bool { return h.Restart != nil }}
	rewind  = need{"Harness.Checkpoint", func(h *Harness, _ driver.Caps) bool { return h.Checkpoint != nil }}
	sever   = need{"Harness.Sever", func(h *Harness, _ driver.Caps) bool { return h.Sever != nil }}
)

// all makes a list of needs read like a sentence where a case is written down.
func all(n ...need) []need { return n }
