// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/fencelock/fencelock"
)

// holderView is a holder in JSON. Fields are only added. Durations are in
// milliseconds by the store's clock.
type holderView struct {
	Owner    string            `json:"owner"`
	Reason   string            `json:"reason,omitempty"`
	Token    fencelock.Token   `json:"token"`
	Mode     string            `json:"mode"`
	Weight   int64             `json:"weight,omitempty"`
	AgeMS    int64             `json:"age_ms"`
	EndsInMS int64             `json:"ends_in_ms"`
	Kept     bool              `json:"kept,omitempty"`
	Trace    string            `json:"trace,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Session  string            `json:"session,omitempty"`
}

func holderOf(h *fencelock.Holder) *holderView {
	if h == nil {
		return nil
	}
	return &holderView{
		Owner: h.Record.Owner, Reason: h.Record.Reason, Token: h.Token, Mode: h.Mode.String(), Weight: h.Weight,
		AgeMS: h.Age.Milliseconds(), EndsInMS: h.EndsIn.Milliseconds(), Kept: h.Kept,
		Trace: h.Record.Trace, Labels: h.Record.Labels, Session: h.Claim.Session.String(),
	}
}

// short writes a duration for people: the two largest units that matter.
func short(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%dms", max(d, 0).Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
