// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/fencelock/fencelock/store/memstore"
)

// Weather says what kinds of trouble a schedule has.
type Weather uint8

const (
	// Calm: no fault at all. The strictest checks hold all the time.
	Calm Weather = iota
	// Deaf: pushes get lost, nothing else.
	Deaf
	// DataLoss: the store loses its data, the network is fine.
	DataLoss
	// Storm: anything.
	Storm
	// Haze: replies are late, and the store loses its data.
	Haze
	// Outage: the store begins a new incarnation, and then one kind of operation
	// fails for a whole TTL.
	Outage
)

// String returns the weather in lower case.
func (w Weather) String() string {
	return [...]string{"calm", "deaf", "data loss", "storm", "haze", "outage"}[w]
}

// NameKind says what kind of lock a name is.
type NameKind uint8

// The kinds of locks.
const (
	MutexName NameKind = iota
	RWName
	SemaphoreName
)

// Name is one lock of a schedule.
type Name struct {
	Name  string
	Kind  NameKind
	Limit int64 // of a semaphore
}

// ClientPlan is one process of a schedule.
type ClientPlan struct {
	TTL          time.Duration
	LocalHandoff time.Duration
	Workers      int
	Fault        string        // in the language of faultstore
	Kill         time.Duration // when the process dies; 0: never
	Close        time.Duration // when it is closed in good order; 0: at the end
	Suspends     []Span        // when its machine is suspended
	Cut          string        // the operation that fails in an outage, if any
}

// StoreEvent is something that happens to the store at a given time.
type StoreEvent struct {
	At   time.Duration
	Kind Kind // LostData, Restored, Restarted or Stepped
	Step time.Duration
}

// Schedule is all that is decided before a run. It is a function of the seed.
type Schedule struct {
	Seed    uint64
	Weather Weather
	T       time.Duration // the longest TTL, the unit of all other times
	Store   memstore.Options
	Rate    float64 // of the store's clock
	Names   []Name
	Clients []ClientPlan
	Events  []StoreEvent
	Acts    []Act
	End     time.Duration // of the storm: no fault strikes a later call
	TailOps int           // acquisitions of each worker after it
	// Zeal shortens the pauses between acquisitions.
	Zeal float64
	// Grid, if not 0, is what all times of the workers are a multiple of, so that
	// many things happen at the same instant.
	Grid time.Duration
	// Restless keeps the clients busy between End and Clear; the sessions of
	// others end there, and what they left in the store with them.
	Restless bool
	// Election adds a candidate to each client.
	Election bool
	// Jobs makes many of the acquisitions occurrences of a job.
	Jobs bool
	// Hoard, if not 0, is how many names some workers lock together.
	Hoard int
	// Short makes many leases end by themselves.
	Short bool
}

// Make returns the schedule of a seed.
func Make(seed uint64) *Schedule {
	r := rand.New(rand.NewPCG(seed, 0x5eed))
	s := &Schedule{Seed: seed, T: time.Duration(1000+r.IntN(4000)) * time.Millisecond, Rate: 1, TailOps: 1 + r.IntN(3)}
	s.Weather = pick(r, Calm, Calm, Deaf, DataLoss, DataLoss, Storm, Storm, Storm, Storm, Haze)
	s.End = time.Duration(float64(s.T) * (3 + 3.5*r.Float64()))
	s.Zeal = pick(r, 0.5, 1, 1, 2, 4)
	s.Store = memstore.Options{Shards: 1 + r.IntN(3), MaxTTL: s.T, Grace: r.IntN(2) == 0}
	switch r.IntN(8) {
	case 0:
		s.Store.NoPush = true
	case 1:
		s.Store.NoQueue = true
	}
	if r.IntN(4) == 0 {
		s.Rate = pick(r, 0.993, 1.007) // well within the drift that is allowed for
	}
	for i := range 1 + r.IntN(3) {
		n := Name{Name: fmt.Sprintf("lock-%d", i), Kind: pick(r, MutexName, MutexName, RWName, SemaphoreName)}
		if n.Kind == SemaphoreName {
			n.Limit = 1 + r.Int64N(4)
		}
		s.Names = append(s.Names, n)
	}
	for range 2 + r.IntN(4) {
		s.Clients = append(s.Clients, s.client(r))
	}
	s.storeEvents(r)
	if r.IntN(4) == 0 {
		s.Grid = s.T / 16
	}
	s.Restless = r.IntN(2) == 0
	s.acts(r)
	s.extend()
	return s
}

// pick chooses one of the values.
func pick[V any](r *rand.Rand, values ...V) V { return values[r.IntN(len(values))] }

// share returns a random duration from lo to hi times the unit.
func share(r *rand.Rand, unit time.Duration, lo, hi float64) time.Duration {
	return time.Duration(float64(unit) * (lo + (hi-lo)*r.Float64())).Round(time.Microsecond)
}

func (s *Schedule) client(r *rand.Rand) ClientPlan {
	c := ClientPlan{TTL: s.T, Workers: 1 + r.IntN(4), Fault: "none"}
	if r.IntN(3) == 0 {
		c.TTL = share(r, s.T, 0.5, 1)
	}
	c.LocalHandoff = pick(r, pick(r, 0, 0, -1, s.T/10), 0, -1, s.T/100, s.T/30)
	switch s.Weather {
	case Deaf:
		c.Fault = fmt.Sprintf("on(await, prob(%.2f, %d, lose(reply)))", 0.3+0.7*r.Float64(), r.IntN(1000))
	case Haze:
		c.Fault = s.haze(r)
	case Storm:
		if r.IntN(4) > 0 {
			c.Fault = s.fault(r)
		}
		switch r.IntN(8) {
		case 0:
			c.Kill = share(r, s.End, 0.1, 0.95)
		case 1:
			c.Close = share(r, s.End, 0.2, 0.95)
		}
	}
	return c
}

// storeEvents plans what happens to the store. A clock that went back and a
// memory that was lost after it are not combined: the tokens of a new
// incarnation are seeded by the clock, which is documented.
func (s *Schedule) storeEvents(r *rand.Rand) {
	count := 0
	switch s.Weather {
	case DataLoss, Haze:
		count = 1 + r.IntN(3)
	case Storm:
		count = max(0, r.IntN(5)-2)
	}
	kinds := []Kind{LostData, Restored, Restored, Restarted}
	if s.Weather == Storm && r.IntN(4) == 0 {
		kinds = []Kind{Stepped, Stepped, Restarted}
	}
	for range count {
		e := StoreEvent{At: share(r, s.End, 0.05, 0.95), Kind: pick(r, kinds...)}
		if e.Kind == Stepped {
			e.Step = share(r, s.T, 0.2, 1.5)
			if r.IntN(2) == 0 {
				e.Step = -e.Step
			}
		}
		s.Events = append(s.Events, e)
	}
}

// Clear is when all faults and their consequences are over: what is under way
// has landed, dead sessions have ended, grace is over.
func (s *Schedule) Clear() time.Duration {
	d := s.End + 5*s.T
	if s.Store.Grace {
		d += s.T
	}
	for _, e := range s.Events {
		d += max(0, -e.Step)
	}
	return d + 2*s.T // steps that faults made
}

// Bound is how long an acquisition may take after Clear, all others before it.
func (s *Schedule) Bound() time.Duration {
	ops := 0
	for _, c := range s.Clients {
		ops += c.Workers * s.TailOps
		if s.Election {
			ops++
		}
	}
	return 2*s.T + time.Duration(ops)*(tailHold(s.T)+s.T/16)
}

// tailHold is the longest hold after Clear.
func tailHold(t time.Duration) time.Duration { return t / 50 }

// Faults returns the fault expressions of all clients on one line, as the flag
// -sim.fault takes them.
func (s *Schedule) Faults() string {
	var all []string
	for _, c := range s.Clients {
		all = append(all, c.Fault)
	}
	return strings.Join(all, " | ")
}

// Override replaces the fault expressions: one for all clients, or one for each,
// separated by bars. Nothing is known of the new weather, so it counts as a
// storm.
func (s *Schedule) Override(faults string) {
	parts := strings.Split(faults, "|")
	for i := range s.Clients {
		s.Clients[i].Fault = strings.TrimSpace(parts[min(i, len(parts)-1)])
	}
	s.Weather = Storm
}

// String returns the schedule for people.
func (s *Schedule) String() string {
	var b strings.Builder
	o := s.Store
	fmt.Fprintf(&b, "seed %d: %s, T %v, faults end at %v, clear at %v, store: %d shards, grace %v, nopush %v, noqueue %v, rate %v\n",
		s.Seed, s.Weather, s.T, s.End, s.Clear(), o.Shards, o.Grace, o.NoPush, o.NoQueue, s.Rate)
	for _, n := range s.Names {
		fmt.Fprintf(&b, "  %s: %s\n", n.Name, [...]string{"mutex", "rwmutex", fmt.Sprintf("semaphore of %d", n.Limit)}[n.Kind])
	}
	for i, c := range s.Clients {
		fmt.Fprintf(&b, "  c%d: ttl %v, %d workers, local handoff %v, kill %v, close %v, fault %s\n",
			i, c.TTL, c.Workers, c.LocalHandoff, c.Kill, c.Close, c.Fault)
	}
	for _, e := range s.Events {
		fmt.Fprintf(&b, "  store %s at %v %v\n", e.Kind, e.At, e.Step)
	}
	for _, a := range s.Acts {
		fmt.Fprintf(&b, "  operator: %s %s %d at %v\n", a.Name, a.Kind, a.Limit, a.At)
	}
	b.WriteString(s.extras())
	return b.String()
}
