// SPDX-License-Identifier: Apache-2.0

package native

import (
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// outcome reads the reply of attempt.lua. element is that of a claim that is queued; of a grant
// that plain commands may remove it is the beginning.
func outcome(reply []any) (out driver.Outcome, element string, err error) {
	r := rediscmd.Reader{Rest: reply}
	switch r.Text() {
	case "GRANTED":
		out = driver.Outcome{State: driver.Granted, Token: r.Token(), Remaining: r.Millis()}
		element = r.Text()
		return out, element, r.Err()
	case "ABSENT":
		return driver.Outcome{State: driver.Absent}, "", nil
	case "QUEUED":
		out.State = driver.Queued
	default:
		out.State = driver.Busy
	}
	out.Position = int(r.Number())
	out.Grace = r.Number() > 0
	out.PollAfter = r.Millis()
	for _, h := range r.List() {
		out.Holders = append(out.Holders, rediscmd.HolderOf(h))
	}
	out.Token = r.Token()
	element = r.Text()
	r.Number()
	return out, element, r.Err()
}
