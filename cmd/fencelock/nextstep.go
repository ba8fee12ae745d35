// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/agent"
)

// storeChoice is the URL of the store and where the user wrote it.
type storeChoice struct{ url, source string }

// nextStep is what the user can do about an error of the store, or "".
func (a *app) nextStep(err error) string {
	var answered *agent.ReplyError // has the text of the agent's error only
	if exitCode(err) != exitUnavailable || !errors.Is(err, fencelock.ErrUnavailable) && !errors.As(err, &answered) {
		return ""
	}
	chosen, found := a.choice()
	if found != nil {
		return ""
	}
	return nextStepFor(err.Error(), chosen)
}

// nextStepFor reads the texts of errors: the libraries of some servers return no others.
func nextStepFor(text string, chosen storeChoice) string {
	var step string
	switch {
	case strings.Contains(text, "connection refused"):
		step = "no server accepts connections there; start it, or check host and port"
	case strings.Contains(text, "no such host"):
		step = "no server has that name; check the host"
	default:
		return ""
	}
	return fmt.Sprintf("%s. The store is %s, from %s; --store URL names another (fencelock help stores)", step, chosen.shown(), chosen.source)
}

// shown is the URL without what could be a password. The error has the address.
func (c storeChoice) shown() string {
	base, _, _ := strings.Cut(c.url, "?")
	if strings.Contains(c.url, "@") {
		base, _, _ = strings.Cut(base, "://")
		base += "://…"
	}
	return base
}
