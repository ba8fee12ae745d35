// SPDX-License-Identifier: Apache-2.0

//go:build unix

package main

import (
	"fmt"
	"time"
)

// kept is a client that holds one lock all the time, and the token while it does.
type kept struct {
	client *apiClient
	token  string
}

// keep holds a lock through the balancer until stop is closed, and gets it again if it is lost.
func (d *demo) keep(i int, stop <-chan struct{}) {
	c := newAPIClient(d.balancer.url(), d.token, demoTTL)
	if err := c.open(); err != nil {
		d.Error(err)
		return
	}
	note := func(token string) {
		d.mu.Lock()
		d.keeping[i] = kept{c, token}
		d.mu.Unlock()
	}
	for round := 0; ; round++ {
		l, err := c.lock(fmt.Sprint("round-", round), fmt.Sprint("keep/", i))
		if err != nil {
			d.Error(err)
			return
		}
		note(l.Token)
		trusted := time.Now().Add(demoTTL / 2)
		for l.State == "held" {
			select {
			case <-stop:
				return
			case <-time.After(demoTTL / 5):
			}
			var next apiLease
			if next, trusted = c.renew(&l, trusted); next.State != "held" {
				d.Logf("keep/%d was lost: %s", i, next.Why)
			}
			l = next
		}
		note("")
	}
}

// stuck counts locks that cannot be acquired, and workers that do not write any more, when
// all faults are over.
func (d *demo) stuck() (count int) {
	before := map[string]int{}
	names := []string{}
	for i := range pyWorkers {
		names = append(names, fmt.Sprint("py", i))
	}
	for i := range goProcesses {
		names = append(names, fmt.Sprint("go", i))
	}
	for _, name := range names {
		before[name] = d.guard.of(name)
	}
	c := newAPIClient(d.balancer.url(), d.token, demoTTL)
	if err := c.open(); err != nil {
		d.Error(err)
		return 1
	}
	for _, lock := range demoLocks {
		l, err := c.lock("last-"+lock, lock)
		if err != nil {
			d.Error(err)
			count++
			continue
		}
		var released apiLease
		if err := c.insist("/v1/release", l.named(), &released); err != nil || released.State != "released" {
			d.Errorf("%s: %+v, %v", lock, released, err)
		}
	}
	for _, name := range names {
		end := time.Now().Add(patience)
		for d.guard.of(name) == before[name] && time.Now().Before(end) {
			time.Sleep(50 * time.Millisecond)
		}
		if d.guard.of(name) == before[name] {
			d.Errorf("%s writes no more", name)
			count++
		}
	}
	return count
}
