// SPDX-License-Identifier: Apache-2.0

package lockview

import (
	"context"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/text"
	"github.com/fencelock/fencelock/driver"
)

// Findings checks the servers of a store and its guarantees. What is missing for
// correctness is a danger if correctness is asked for, otherwise a note. graceFix is how
// to make the store keep locks over a data loss, "" if it cannot.
func Findings(ctx context.Context, store driver.Store, g fencelock.Guarantees, graceFix string, correctness bool) []driver.Finding {
	all := []driver.Finding{}
	if checker, ok := store.(driver.Checker); ok {
		found, err := checker.Check(ctx)
		all = append(all, found...)
		if err != nil { // a server did not answer; the findings of the others stand
			all = append(all, driver.Finding{Severity: driver.Warning, Code: "unreachable", Reason: "a server could not be checked: " + err.Error(),
				Fix: "start it; if only this machine does not reach it, check the network"})
		}
	} else {
		all = append(all, driver.Finding{Severity: driver.Note, Code: "unchecked", Reason: "this store cannot check its server"})
	}
	for _, f := range unfit(g, graceFix) {
		if !correctness {
			f.Severity = driver.Note
		}
		all = append(all, f)
	}
	return all
}

// PlainFindings leaves out of findings what is for Go programs.
func PlainFindings(findings []driver.Finding) {
	for i, f := range findings {
		findings[i].Reason, findings[i].Fix = text.Plain(f.Reason), text.Plain(f.Fix)
	}
}

// unfit says what is missing where doing the work twice would corrupt something.
func unfit(g fencelock.Guarantees, graceFix string) []driver.Finding {
	var found []driver.Finding
	if g.Fencing != fencelock.Strict {
		found = append(found, driver.Finding{Severity: driver.Danger, Code: "fencing", Reason: "tokens are not strict: they are " + g.Fencing.String(), Fix: "use another store"})
	}
	if !g.SurvivesCrash {
		fix := graceFix
		if fix == "" {
			fix = "use another store, or check the token wherever something is written"
		}
		found = append(found, driver.Finding{Severity: driver.Danger, Code: "data-loss",
			Reason: "a crash or failover of the server may lose the holder of a lock, and another client may acquire the lock while it is held", Fix: fix})
	}
	return found
}
