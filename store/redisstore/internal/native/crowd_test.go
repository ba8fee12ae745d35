// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"fmt"
	"sync"

	"github.com/fencelock/fencelock/driver"
	"pgregory.net/rapid"
)

// crowd does an operation of one process for each of some names at once. The store of lists
// sends the first two alone, and what comes while they are in flight in one transaction.
// Operations for different names have no order, so the model does them one by one.
func (m *machine) crowd(t *rapid.T) {
	i := m.process(t)
	p := m.w.procs[i]
	var ops []*operation
	for _, name := range m.w.names {
		switch rapid.SampledFrom([]string{"attempt", "attempt", "withdraw", ""}).Draw(t, "operation for "+name) {
		case "attempt":
			p.seq++
			c := &driver.Claim{Seq: p.seq, Name: name, Queue: true,
				Terms: &driver.Terms{Weight: 1, Record: &driver.Record{Reason: fmt.Sprintf("claim %d of p%d", p.seq, i)}}}
			if m.w.p.now.Before(p.end) {
				p.claims = append(p.claims, c)
			}
			ops = append(ops, &operation{claim: c, real: c, what: fmt.Sprintf("attempt p%d:%d %q %v", i, c.Seq, c.Name, termsText(c))})
		case "withdraw":
			for _, c := range p.claims {
				if c.Name == name {
					ops = append(ops, &operation{gone: driver.Withdrawal{Seq: c.Seq, Name: name}, what: fmt.Sprintf("withdraw p%d:%d %q", i, c.Seq, name)})
					break
				}
			}
		}
	}
	var all sync.WaitGroup
	for _, o := range ops {
		o.done = make(chan struct{})
		all.Go(func() { o.do(m.w.ctx, p.real) })
	}
	all.Wait()
	m.w.step("p%d at once:", i)
	for _, o := range ops {
		if o.claim == nil {
			model, err := p.model.Withdraw(m.w.ctx, o.gone)
			m.w.withdrawn(p, o.gone, o.what, model, err, o.removed, o.err)
			continue
		}
		model, err := p.model.Attempt(m.w.ctx, o.claim)
		m.w.attempted(p, o.claim, o.what, model, err, o.outcome, o.err)
	}
}
