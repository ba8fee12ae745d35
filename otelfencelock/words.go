// SPDX-License-Identifier: Apache-2.0

package otelfencelock

import (
	"context"
	"errors"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// named is an error and its word in attributes. Words are few and never change
// with the text of an error.
type named struct {
	err  error
	word string
}

// lossReasons are why a lease can be lost. A renewal that the store refuses for good is
// LossSessionEnded, too, and something else must be done about it.
var lossReasons = []named{
	{driver.ErrRefused, "refused"},
	{fencelock.LossUnrenewed, "unrenewed"},
	{fencelock.LossSessionEnded, "ended"},
	{fencelock.LossStoreReset, "reset"},
	{fencelock.LossForceUnlock, "broken"},
	{fencelock.LossMaxHold, "expired"},
}

// outcomes are how an acquisition can end. A store that did not answer comes
// first, even if the caller's context ended before Options.StoreTimeout, and so does one
// that grants nothing for now: "timeout"
// is a wait for a holder, and a busy lock must not look like an outage.
var outcomes = []named{
	{fencelock.ErrUnavailable, "unavailable"},
	{fencelock.ErrGrace, "grace"},
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "canceled"},
	{fencelock.ErrBusy, "busy"},
	{fencelock.ErrLost, "lost"},
	{fencelock.ErrClosed, "closed"},
}

// callErrors are what a store can answer. An unknown outcome often wraps the
// context's error, and is what matters of the two.
var callErrors = []named{
	{driver.ErrUnknown, "unknown"},
	{driver.ErrUnavailable, "unavailable"},
	{driver.ErrGone, "gone"},
	{driver.ErrReset, "reset"},
	{driver.ErrNotHeld, "not_held"},
	{driver.ErrUnsupported, "unsupported"},
	{driver.ErrRefused, "refused"},
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "canceled"},
}

// otherError is the word for a definite error that is not in callErrors.
const otherError = "other"

// sessionEvents are the transitions of sessions.
var sessionEvents = map[fencelock.EventKind]string{
	fencelock.SessionOpened:        "opened",
	fencelock.SessionOpenFailed:    "open_failed",
	fencelock.SessionRenewalFailed: "renewal_failed",
	fencelock.SessionReset:         "reset",
	fencelock.SessionResumed:       "resumed",
	fencelock.SessionLost:          "lost",
	fencelock.SessionClosed:        "closed",
}

// occurrenceOutcomes are the words of occurrenceOutcome.
var occurrenceOutcomes = []string{"not_run", "failed", "ran", "already_ran", "running_elsewhere"}

// occurrenceOutcome is the word for what became of an occurrence of Once.
func occurrenceOutcome(e *fencelock.OnceEnd) string {
	switch r := e.Result; {
	case r.Ran && r.Done:
		return "ran"
	case r.Ran:
		return "failed"
	case r.Done:
		return "already_ran"
	case e.Err != nil:
		return "not_run"
	}
	return "running_elsewhere"
}

// word returns the first word that fits.
func word(err error, words []named, otherwise string) string {
	for _, n := range words {
		if errors.Is(err, n.err) {
			return n.word
		}
	}
	return otherwise
}

func lossReason(err error) string { return word(err, lossReasons, "ended") }

func outcome(err error) string {
	if err == nil {
		return "acquired"
	}
	return word(err, outcomes, "error")
}

func callError(err error) string {
	if err == nil {
		return ""
	}
	return word(err, callErrors, otherError)
}
