// SPDX-License-Identifier: Apache-2.0

package fleetsim

import (
	"math"
	"slices"
	"testing"
	"time"
)

const us = time.Microsecond

var small = Fleet{
	Processes: 1000, Masters: 1, Rate: 10_000, TTL: 15 * time.Second, For: 20 * time.Second,
	Costs: Costs{Pair: 20 * us, Handoff: 100 * us, KeepAlive: 10 * us, Reclaim: 20 * us}, Seed: 1,
}

// TestUtilizationIsTheSumOfCosts: what arrives, times what it costs.
func TestUtilizationIsTheSumOfCosts(t *testing.T) {
	t.Parallel()
	f := small
	f.Contended = 0.25
	out := Run(f)
	renewals := float64(f.Processes) / (0.89 * 15 / 3 * 0.95)
	want := (10_000*(0.75*20+0.25*100) + renewals*10) / 1e6
	if math.Abs(out.Mean-want) > 0.02*want {
		t.Errorf("%v busy, want %v", out.Mean, want)
	}
	if out.Lost > 0 {
		t.Errorf("%d sessions were lost on a server that is %v busy", out.Lost, out.Mean)
	}
}

// TestWaitsAreThoseOfAQueue: the mean wait of M/D/1 is known.
func TestWaitsAreThoseOfAQueue(t *testing.T) {
	t.Parallel()
	for _, busy := range []float64{0.2, 0.5, 0.8} {
		f := small
		f.Rate, f.Hold = busy/f.Costs.Pair.Seconds(), 50*time.Millisecond
		call := f.Costs.Pair.Seconds() / 2 // a pair is two calls
		out := Run(f)
		sum := 0.0
		for _, w := range out.Waits {
			sum += w.Seconds()
		}
		got, want := sum/float64(len(out.Waits)), busy*call/(2*(1-busy))
		if math.Abs(got-want) > 0.15*want {
			t.Errorf("%v busy: mean wait %v s, want %v", busy, got, want)
		}
	}
}

// TestIdleMasterHasToWakeUp: a call that finds the master idle costs more, and on a busy one few do.
func TestIdleMasterHasToWakeUp(t *testing.T) {
	t.Parallel()
	for _, rate := range []float64{100, 10_000, 30_000} {
		f := small
		f.Rate, f.Hold, f.Costs.Wake, f.Processes = rate, 50*time.Millisecond, 20*us, 100
		renewals := 100 / (0.89 * 15 / 3 * 0.95)
		work := rate*f.Costs.Pair.Seconds() + renewals*f.Costs.KeepAlive.Seconds()
		wake := (2*rate + renewals) * f.Costs.Wake.Seconds()
		if out := Run(f); math.Abs(out.Mean-(work+wake)/(1+wake)) > 0.03*out.Mean {
			t.Errorf("%v locks a second: %v busy, want %v", rate, out.Mean, (work+wake)/(1+wake))
		}
	}
}

// TestQuorumCarriesEverythingEverywhere: more nodes do not carry more, more masters do.
func TestQuorumCarriesEverythingEverywhere(t *testing.T) {
	t.Parallel()
	one, five := small, small
	five.Masters, five.Sessions = 5, 1
	spread := Run(five)
	five.Quorum = true
	alone, quorum := Run(one), Run(five)
	if math.Abs(quorum.Mean-alone.Mean) > 0.02*alone.Mean {
		t.Errorf("a node of a quorum is %v busy, one server %v", quorum.Mean, alone.Mean)
	}
	if math.Abs(5*spread.Mean-alone.Mean) > 0.02*alone.Mean {
		t.Errorf("each of five masters is %v busy, one server %v", spread.Mean, alone.Mean)
	}
}

// TestSessionOnEveryMaster: keep-alives do not become fewer for a master when there are more masters.
func TestSessionOnEveryMaster(t *testing.T) {
	t.Parallel()
	one := small
	one.Rate = 0
	all := one
	all.Masters = 8
	if a, b := Run(one), Run(all); math.Abs(a.Mean-b.Mean) > 0.02*a.Mean {
		t.Errorf("keep-alives of sessions on every master: %v busy on one, %v on each of eight", a.Mean, b.Mean)
	}
}

func TestSameSeedSameOutcome(t *testing.T) {
	t.Parallel()
	a, b := Run(small), Run(small)
	if a.Calls != b.Calls || a.Busy != b.Busy || !slices.Equal(a.Arrivals, b.Arrivals) {
		t.Error("two runs of one seed differ")
	}
	other := small
	other.Seed = 2
	if c := Run(other); slices.Equal(a.Arrivals, c.Arrivals) {
		t.Error("two seeds give one outcome")
	}
}

// TestRestartDoesNotSynchronizeRenewals: all processes open their sessions at once, but their
// renewals spread.
func TestRestartDoesNotSynchronizeRenewals(t *testing.T) {
	t.Parallel()
	f := small
	f.Rate, f.Restart, f.Processes, f.For = 0, true, 10_000, 5*time.Minute
	out := Run(f)
	if out.Arrivals[0] != f.Processes {
		t.Fatalf("%d of %d opened their session at once", out.Arrivals[0], f.Processes)
	}
	later := out.Arrivals[1 : len(out.Arrivals)-1]
	sum := 0
	for _, n := range later {
		sum += n
	}
	if mean := float64(sum) / float64(len(later)); float64(slices.Max(later)) > 4*mean {
		t.Errorf("the busiest tenth of a second has %d arrivals, the mean is %v", slices.Max(later), mean)
	}
}

// TestFailoverInsideTheTTLLosesNothing, and one that takes longer does: the simulation shows it.
func TestFailoverInsideTheTTLLosesNothing(t *testing.T) {
	t.Parallel()
	f := small
	f.Leases, f.Rate, f.Down, f.Downtime, f.For = 100, 1000, 20*time.Second, 3*time.Second, time.Minute
	if out := Run(f); out.Lost > 0 {
		t.Errorf("%d sessions were lost in a failover of %v", out.Lost, f.Downtime)
	}
	f.Downtime = 20 * time.Second
	if out := Run(f); out.Lost == 0 {
		t.Errorf("no session was lost in %v without a server", f.Downtime)
	}
	f.Downtime, f.Leases = 3*time.Second, 10_000 // 200 s of reclaims
	if out := Run(f); out.Lost == 0 || out.Lost > f.Processes || out.Calm < 10*time.Second {
		t.Errorf("a failover with ten million leases lost %d sessions and was calm after %v", out.Lost, out.Calm)
	}
}

// TestEveryMasterIsAskedAboutItsConnections: those of a process are asked about one by one, and not all at one master.
func TestEveryMasterIsAskedAboutItsConnections(t *testing.T) {
	t.Parallel()
	one := small
	one.Rate, one.Costs.Connected, one.Costs.Connections = 2000, 150*us, 3
	all := one
	all.Masters, all.Sessions, all.Rate = 8, 1, 8*one.Rate
	all.Costs.Connected, all.Costs.Connections = 8*one.Costs.Connected, 8*one.Costs.Connections
	p99 := func(f Fleet) time.Duration {
		waits := slices.Sorted(slices.Values(Run(f).Waits))
		return waits[len(waits)*99/100]
	}
	if a, b := p99(one), p99(all); b > a+a/4 || b < a-a/4 {
		t.Errorf("p99 is %v at one master, %v at each of eight that are as busy", a, b)
	}
}

// TestCalmIsNotBeforeTheServerIsBack: a call that is retried is not calm.
func TestCalmIsNotBeforeTheServerIsBack(t *testing.T) {
	t.Parallel()
	f := small
	f.Rate, f.Leases, f.Down, f.Downtime = 1000, 1, 5*time.Second, 3*time.Second
	for _, masters := range []int{1, 8} {
		f.Masters, f.Sessions = masters, 1
		out := Run(f)
		if out.Calm < f.Downtime || out.Calm > 2*f.Downtime {
			t.Errorf("%d masters: calm %v after one of them failed for %v", masters, out.Calm, f.Downtime)
		}
		if out.Reclaimed < f.Downtime || out.Reclaimed > f.Downtime+f.TTL/2 {
			t.Errorf("%d masters: every lease was reclaimed after %v, with a TTL of %v", masters, out.Reclaimed, f.TTL)
		}
	}
}

// TestQuorumGoesOnWithoutANode: the node does nothing while it is down, and then only its own leases are reclaimed.
func TestQuorumGoesOnWithoutANode(t *testing.T) {
	t.Parallel()
	f := small
	f.Masters, f.Sessions, f.Quorum, f.Leases, f.For = 5, 1, true, 50, 30*time.Second
	calm := Run(f)
	f.Down, f.Downtime = 5*time.Second, 3*time.Second
	out := Run(f)
	for i := range int(f.Downtime/Bin) - 1 {
		if worked := out.Worked[int(f.Down/Bin)+1+i]; worked > 0 {
			t.Fatalf("the node worked %v of a tenth of a second while it was down", worked)
		}
	}
	if out.Lost > 0 || out.Calm > f.Downtime {
		t.Errorf("%d sessions were lost, and calls waited until %v after one node of five had failed", out.Lost, out.Calm)
	}
	if out.Reclaimed < f.Downtime {
		t.Errorf("every lease was reclaimed after %v", out.Reclaimed)
	}
	leases := float64(f.Processes*f.Leases) * f.Costs.Reclaim.Seconds()
	got, want := 5*(out.Mean-calm.Mean)*f.For.Seconds(), leases-calm.Mean*f.Downtime.Seconds()
	if math.Abs(got-want) > 0.1*leases {
		t.Errorf("the failure cost all nodes %v s more, want %v", got, want)
	}
}

// TestRetriedLockIsThatOfItsMaster: its name does not move to a master that is not down.
func TestRetriedLockIsThatOfItsMaster(t *testing.T) {
	t.Parallel()
	f := small
	f.Masters, f.Sessions = 8, 1
	r := newRun(f)
	for range 20 {
		if at := r.at(event{kind: lock, master: 3, failures: 1}); at != 3 {
			t.Fatalf("a lock that failed at the fourth of eight masters is tried at number %d", at)
		}
	}
}
