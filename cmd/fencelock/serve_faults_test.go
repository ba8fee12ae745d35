// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"syscall"
	"time"
)

// fault does one thing to a server or to a worker, and heals it.
type fault struct {
	name string
	do   func(server, worker int, pause time.Duration)
}

func (d *demo) plan() []fault {
	// A cut-off is longer than all leases, sometimes.
	long := func(pause time.Duration) time.Duration { return time.Second + 3*pause }
	kill := fault{"a server is killed", func(i, _ int, _ time.Duration) { d.killServer(i) }}
	return []fault{
		kill, kill,
		{"a server is paused", func(i, _ int, pause time.Duration) { d.pauseFor(d.servers[i], pause) }},
		{"a worker is paused", func(_, w int, pause time.Duration) { d.pauseFor(d.workers[w], 2*pause) }},
		{"a worker is killed", func(_, w int, _ time.Duration) { d.restartWorker(w) }},
		{"connections to a server are closed", func(i, _ int, _ time.Duration) { d.balancer.cut(d.addrs[i]) }},
		{"a server is refused to clients", func(i, _ int, pause time.Duration) {
			d.cutOff(i, long(pause), func() (heal func()) { return d.balancer.cutOff(d.addrs[i], false) })
		}},
		{"a server is cut off from clients", func(i, _ int, pause time.Duration) {
			d.cutOff(i, long(pause), func() (heal func()) { return d.balancer.cutOff(d.addrs[i], true) })
		}},
		{"a server is cut off from Redis", func(i, _ int, pause time.Duration) {
			d.cutOff(i, long(pause), func() (heal func()) { d.paths[i].cut(); return d.paths[i].heal })
		}},
		{"a Go worker is cut off from Redis", func(_, w int, pause time.Duration) {
			p := d.goPaths[w%goProcesses]
			p.cut()
			time.Sleep(long(pause))
			p.heal()
		}},
		{"Redis is paused", func(_, _ int, pause time.Duration) {
			resume := d.redis.Pause()
			time.Sleep(pause / 6) // less than the leases have
			resume()
		}},
	}
}

// faults does all of the plan, in another order each time, until a time and once at least.
func (d *demo) faults(until time.Time) {
	done := map[string]int{}
	for round := 0; round == 0 || time.Now().Before(until); round++ {
		plan := d.plan()
		d.rand.Shuffle(len(plan), func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })
		for _, f := range plan {
			if round > 0 && time.Now().After(until) {
				break
			}
			f.do(d.rand.IntN(len(d.servers)), d.rand.IntN(len(d.workers)), time.Duration(d.rand.IntN(3000))*time.Millisecond)
			done[f.name]++
			time.Sleep(time.Duration(d.rand.IntN(500)) * time.Millisecond)
		}
	}
	for name, n := range done {
		d.Logf("%2d times: %s", n, name)
	}
}

// during does a fault to a server, and counts which of the leases that were held through it are still held with their tokens.
func (d *demo) during(c *count, i int, fault func()) {
	held := map[int]string{} // tokens, by client
	d.mu.Lock()
	for k, s := range d.keeping {
		if s.token != "" && d.balancer.serverOf(s.client.from.Load().(string)) == d.addrs[i] {
			held[k] = s.token
		}
	}
	d.mu.Unlock()
	fault()
	d.mu.Lock()
	defer d.mu.Unlock()
	c.times, c.held = c.times+1, c.held+len(held)
	for k, token := range held {
		if d.keeping[k].token != token {
			c.lost++
		}
	}
}

// killServer kills a server, and starts it again when its leases in the store must be over.
func (d *demo) killServer(i int) {
	d.during(&d.kills, i, func() {
		p := d.servers[i]
		_ = p.cmd.Process.Kill()
		<-p.done
		time.Sleep(demoLockTTL + demoTTL)
	})
	d.startServer(i)
}

// cutOff cuts a server off, and waits until a client must know whether it has lost its lease.
func (d *demo) cutOff(i int, pause time.Duration, cut func() (heal func())) {
	d.during(&d.cutOffs, i, func() {
		heal := cut()
		time.Sleep(pause)
		heal()
		time.Sleep(demoTTL)
	})
}

func (d *demo) pauseFor(p *process, pause time.Duration) {
	_ = p.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(pause)
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
}

func (d *demo) restartWorker(w int) {
	old := d.workers[w]
	_ = old.cmd.Process.Kill()
	<-old.done
	if w < pyWorkers {
		d.workers[w] = d.startPython(fmt.Sprint("py", w))
	} else {
		d.workers[w] = d.startGo(w - pyWorkers)
	}
}
