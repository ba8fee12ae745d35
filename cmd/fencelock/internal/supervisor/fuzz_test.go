// SPDX-License-Identifier: Apache-2.0

//go:build unix

package supervisor

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzOrders: whatever comes through the pipe, the supervisor moves its deadline only
// for an order that says so, and kills when the pipe ends. A line that is too long ends
// it, too.
func FuzzOrders(f *testing.F) {
	for _, seed := range []string{
		`{"until":5000}` + "\n" + `{"signal":15}` + "\n" + `{"signal":18}` + "\n",
		`{"all":true,"signal":15}` + "\n" + `{"kill":true}` + "\n",
		`{"foreground":true}` + "\n" + `{"until":-1}` + "\n" + `{"until":"x"}` + "\n" + `{"until":9`,
		"\n\nnull\n[]\n{}\n" + `{"signal":-9}` + "\n" + `{"signal":99999999999}` + "\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		const first = Instant(1000)
		var sent bytes.Buffer
		// gone: there is no group that a signal could reach.
		w := &supervisor{reports: &sent, wake: make(chan struct{}, 1), until: first, gone: true}
		w.obey(bytes.NewReader(text))
		want := &supervisor{until: first}
		lines := bytes.Split(text, []byte("\n"))
		for _, line := range lines {
			var o order
			if len(line) >= maxLine {
				break
			}
			if json.Unmarshal(line, &o) != nil {
				continue
			}
			if o.Until != 0 {
				want.until = o.Until
			}
			want.foreground = want.foreground || o.Foreground
			want.all = want.all || o.All
		}
		if w.until != want.until || w.foreground != want.foreground || w.all != want.all {
			t.Errorf("got until %d, foreground %v, all %v; want %d, %v, %v", w.until, w.foreground, w.all, want.until, want.foreground, want.all)
		}
		if !w.killing {
			t.Error("the pipe has ended, and nothing is killed")
		}
		if sent.Len() != 0 {
			t.Errorf("it reported %s", sent.String())
		}
	})
}

// FuzzReports: whatever comes through the pipe, the holder never waits for a reader,
// takes one answer of each kind, kills no group but that of a command, and believes that
// nothing is left only after the command has ended.
func FuzzReports(f *testing.F) {
	for _, seed := range []string{
		`{"started":4711}` + "\n" + `{"exited":{"code":7}}` + "\n" + `{"empty":true}` + "\n",
		`{"started":4711}` + "\n" + `{"overdue":true}` + "\n" + `{"exited":{"code":0,"signal":9}}` + "\n",
		`{"not_found":true,"failed":"x"}` + "\n" + `{"started":5}` + "\n",
		`{"started":1}` + "\n" + `{"started":-5}` + "\n" + `{"empty":true}` + "\n",
		`{"started":4711}` + "\n" + `{"stopped":21}` + "\n" + `{"stopped":18}` + "\n" + `{"unreached":[{"pid":5,"uid":0,"name":"sudo"}],"killing":true}` + "\n",
		`{"started":4711}` + "\n" + `{"left":true}` + "\n" + `{"exited":{}}` + "\n" + `{"left":true}` + "\n" + `{"left":true}` + "\n",
		`{"too_late":true,"failed":"x"}` + "\n" + `{"exited":{}}` + "\n{",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c := newChild()
		h := c.hear(bytes.NewReader(text))
		if h.pid == 1 || h.pid < 0 {
			t.Errorf("the group of process %d would be killed", h.pid)
		}
		if h.started != (len(c.started) == 1) || h.exited != (len(c.exited) == 1) {
			t.Errorf("%+v, and %d answers how it started, %d how it ended", h, len(c.started), len(c.exited))
		}
		if h.left && !h.exited {
			t.Error("processes are left of a command that has not ended")
		}
		if h.well && h.pid != 0 && !h.exited {
			t.Error("nothing is left of a command that has not ended")
		}
	})
}
