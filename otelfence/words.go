// SPDX-License-Identifier: Apache-2.0

package otelfence

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

// lossReasons are why a lease can be lost. A renewal that the store refuses for
// good has no error of its own.
var lossReasons = []named{
	{fencelock.ErrUnrenewed, "unrenewed"},
	{fencelock.ErrEnded, "ended"},
	{fencelock.ErrForgotten, "forgotten"},
	{fencelock.ErrBroken, "broken"},
	{fencelock.ErrExpired, "expired"},
	{fencelock.ErrLost, "refused"},
}

// outcomes are how an acquisition can end. The caller's own context comes first:
// its end is why the acquisition ended, whatever else was going on.
var outcomes = []named{
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "cancelled"},
	{fencelock.ErrBusy, "busy"},
	{fencelock.ErrUnavailable, "unavailable"},
	{fencelock.ErrLost, "lost"},
	{fencelock.ErrClosed, "closed"},
}

// callErrors are what a store can answer. An unknown outcome often wraps the
// context's error, and is what matters of the two.
var callErrors = []named{
	{driver.ErrUnknown, "unknown"},
	{driver.ErrUnavailable, "unavailable"},
	{driver.ErrGone, "gone"},
	{driver.ErrForgotten, "forgotten"},
	{driver.ErrNotHeld, "not_held"},
	{driver.ErrUnsupported, "unsupported"},
	{driver.ErrRefused, "refused"},
	{context.DeadlineExceeded, "timeout"},
	{context.Canceled, "cancelled"},
}

// sessionEvents are the transitions of sessions.
var sessionEvents = map[fencelock.EventKind]string{
	fencelock.SessionOpened:        "opened",
	fencelock.SessionRenewalFailed: "renewal_failed",
	fencelock.SessionForgotten:     "forgotten",
	fencelock.SessionResumed:       "resumed",
	fencelock.SessionLost:          "lost",
	fencelock.SessionClosed:        "closed",
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

func lossReason(err error) string { return word(err, lossReasons, "refused") }

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
	return word(err, callErrors, "other")
}
