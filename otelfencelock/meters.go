// SPDX-License-Identifier: Apache-2.0

package otelfencelock

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/fencelock/fencelock"
)

// The attributes of metrics and spans. Those of lockName and below are for
// spans alone: they have no bound.
const (
	storeKey     = attribute.Key("fencelock.store")
	classKey     = attribute.Key("fencelock.class")
	modeKey      = attribute.Key("fencelock.mode")
	outcomeKey   = attribute.Key("fencelock.outcome")
	endKey       = attribute.Key("fencelock.end")
	reasonKey    = attribute.Key("fencelock.reason")
	operationKey = attribute.Key("fencelock.operation")
	eventKey     = attribute.Key("fencelock.event")
	viaKey       = attribute.Key("fencelock.via")
	errorKey     = attribute.Key("error.type")

	lockKey     = attribute.Key("fencelock.lock")
	tokenKey    = attribute.Key("fencelock.token")
	tryKey      = attribute.Key("fencelock.try")
	holderKey   = attribute.Key("fencelock.holder")
	positionKey = attribute.Key("fencelock.position")
)

// Waits and holds last from a millisecond to hours, calls to a store do not.
var (
	waitBounds = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800, 7200}
	callBounds = []float64{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10}
	// A share of the TTL; by default a lease is lost at about a tenth.
	headroomBounds = []float64{0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9}
)

// meters are the instruments of one client.
type meters struct {
	store   attribute.KeyValue
	classes classes

	acquire, hold, operation, headroom, recall  metric.Float64Histogram
	leases, waiters, graces                     metric.Int64UpDownCounter
	acquisitions, contentions, renewals, losses metric.Int64Counter
	lossesByClass, sessions, failures           metric.Int64Counter
	occurrences, occurrencesByClass             metric.Int64Counter
	grace                                       grace
}

func newMeters(p metric.MeterProvider, store string) (*meters, error) {
	meter := p.Meter(scope)
	m := &meters{store: storeKey.String(store)}
	var errs []error
	histogram := func(to *metric.Float64Histogram, name, unit, what string, bounds []float64) {
		var err error
		*to, err = meter.Float64Histogram(name, metric.WithUnit(unit), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
	}
	counter := func(to *metric.Int64Counter, name, unit, what string) {
		var err error
		*to, err = meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
	}
	upDown := func(to *metric.Int64UpDownCounter, name, unit, what string) {
		var err error
		*to, err = meter.Int64UpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
	}
	histogram(&m.acquire, "fencelock.acquire.duration", "s", "How long callers waited for a lock, or for the news that they do not get it.", waitBounds)
	histogram(&m.hold, "fencelock.hold.duration", "s", "How long leases were held.", waitBounds)
	histogram(&m.operation, "fencelock.client.operation.duration", "s", "How long calls to the store took; waiting in a queue does not count.", callBounds)
	histogram(&m.recall, "fencelock.recall.duration", "s", "How long it took to give back locks that lingered.", callBounds)
	histogram(&m.headroom, "fencelock.lease.headroom", "1", "Share of the TTL that was left when the store confirmed a renewal.", headroomBounds)
	upDown(&m.leases, "fencelock.lease.active", "{lease}", "Leases held now.")
	upDown(&m.waiters, "fencelock.waiter.active", "{waiter}", "Acquisitions that wait now.")
	upDown(&m.graces, "fencelock.grace.active", "{client}", "Clients that know the store to be in a grace period.")
	counter(&m.acquisitions, "fencelock.acquisitions", "{lease}", "Leases granted by the store or handed off inside the process.")
	counter(&m.contentions, "fencelock.contentions", "{acquisition}", "Acquisitions that found the lock held or waited for.")
	counter(&m.renewals, "fencelock.renewals", "{renewal}", "Keep-alives of sessions; one carries every lease of a process on a shard.")
	counter(&m.losses, "fencelock.losses", "{lease}", "Leases that ended before they were unlocked.")
	counter(&m.lossesByClass, "fencelock.losses.by_class", "{lease}", "The same losses, by class.")
	counter(&m.failures, "fencelock.client.operation.failures", "{call}", "Calls to the store that failed.")
	counter(&m.sessions, "fencelock.session.transitions", "{transition}", "What happened to sessions.")
	counter(&m.occurrences, "fencelock.occurrences", "{occurrence}", "Occurrences of Once, by what became of them in this process.")
	counter(&m.occurrencesByClass, "fencelock.occurrences.by_class", "{occurrence}", "The same occurrences, by class.")
	return m, errors.Join(errs...)
}

// announceAll adds zero to what alerts read, so that the first event is an
// increase: to most systems a series that begins at one has not increased. None
// of these has a class: a class is first seen with its first event, or so soon
// before it that both are in one scrape.
func (m *meters) announceAll() {
	ctx := context.Background()
	for _, reason := range lossReasons {
		m.losses.Add(ctx, 0, m.set(reasonKey.String(reason.word)))
	}
	for _, event := range sessionEvents {
		m.sessions.Add(ctx, 0, m.set(eventKey.String(event)))
	}
	for _, e := range callErrors {
		m.failures.Add(ctx, 0, m.set(errorKey.String(e.word)))
	}
	m.failures.Add(ctx, 0, m.set(errorKey.String(otherError)))
	for _, how := range occurrenceOutcomes {
		m.occurrences.Add(ctx, 0, m.set(outcomeKey.String(how)))
	}
	m.graces.Add(ctx, 0, m.set())
	m.announce("")
}

// announce adds zero under a class, so that a panel shows what has never
// happened as zero and not as missing data.
func (m *meters) announce(class string) {
	ctx, with := context.Background(), m.classAttr(class)
	for _, reason := range lossReasons {
		m.lossesByClass.Add(ctx, 0, m.set(with, reasonKey.String(reason.word)))
	}
	m.contentions.Add(ctx, 0, m.set(with))
	m.waiters.Add(ctx, 0, m.set(with))
	m.leases.Add(ctx, 0, m.set(with))
}

// set returns the attributes with the store, and without empty ones.
func (m *meters) set(attrs ...attribute.KeyValue) metric.MeasurementOption {
	all := make([]attribute.KeyValue, 1, len(attrs)+1)
	all[0] = m.store
	for _, a := range attrs {
		if a.Valid() && a.Value.AsString() != "" {
			all = append(all, a)
		}
	}
	return metric.WithAttributeSet(attribute.NewSet(all...))
}

func (m *meters) classAttr(class string) attribute.KeyValue { return classKey.String(class) }

// event counts a transition.
func (m *meters) event(e fencelock.Event) {
	ctx := context.Background()
	if word, ok := sessionEvents[e.Kind]; ok {
		m.sessions.Add(ctx, 1, m.set(eventKey.String(word)))
		return
	}
	class := m.classAttr(m.classes.class(e.Name))
	switch e.Kind {
	case fencelock.LeaseGranted, fencelock.LeaseHandedOff:
		via := "store"
		if e.Kind == fencelock.LeaseHandedOff {
			via = "process"
		}
		m.acquisitions.Add(ctx, 1, m.set(class, viaKey.String(via)))
		m.leases.Add(ctx, 1, m.set(class))
	case fencelock.LeaseReleased:
		m.ended(ctx, class, "released", e.Held)
	case fencelock.LeaseLost:
		m.ended(ctx, class, "lost", e.Held)
		reason := reasonKey.String(lossReason(e.Err))
		m.losses.Add(ctx, 1, m.set(reason))
		m.lossesByClass.Add(ctx, 1, m.set(class, reason))
	case fencelock.LeaseRecalled:
		m.recall.Record(ctx, e.Waited.Seconds(), m.set(class))
	case fencelock.LeaseWaiting:
		if e.Grace > 0 { // which is a wait for no holder
			m.inGrace(e.Grace)
			return
		}
		m.contentions.Add(ctx, 1, m.set(class))
	}
}

func (m *meters) ended(ctx context.Context, class attribute.KeyValue, end string, held time.Duration) {
	m.leases.Add(ctx, -1, m.set(class))
	m.hold.Record(ctx, held.Seconds(), m.set(class, endKey.String(end)))
}

// occurred counts an occurrence of Once.
func (m *meters) occurred(ctx context.Context, e *fencelock.OnceEnd) {
	how := outcomeKey.String(occurrenceOutcome(e))
	m.occurrences.Add(ctx, 1, m.set(how))
	m.occurrencesByClass.Add(ctx, 1, m.set(m.classAttr(m.classes.class(e.Name)), how))
}

// acquired counts the end of an acquisition.
func (m *meters) acquired(ctx context.Context, e *fencelock.AcquireEnd, waited bool) {
	class := m.classAttr(m.classes.class(e.Name))
	if waited {
		m.waiters.Add(ctx, -1, m.set(class))
	}
	if errors.Is(e.Err, fencelock.ErrBusy) {
		m.contentions.Add(ctx, 1, m.set(class)) // a try that was refused has no event
	}
	var resting *fencelock.GraceError
	if errors.As(e.Err, &resting) { // neither has a try
		m.inGrace(resting.RetryAfter)
	}
	m.acquire.Record(ctx, e.Waited.Seconds(), m.set(class, outcomeKey.String(outcome(e.Err)), modeKey.String(e.Mode.String())))
}

// grace is the grace period of the store, as far as the client knows. Clients of one process may share an
// instrument, so each adds one at the beginning and takes it away at the end: with a gauge the last of them to
// report would hide the others.
type grace struct {
	mu     sync.Mutex
	until  time.Time
	active bool
}

// inGrace notes that the store grants nothing for that long.
func (m *meters) inGrace(left time.Duration) {
	m.grace.mu.Lock()
	defer m.grace.mu.Unlock()
	if end := time.Now().Add(left); end.After(m.grace.until) {
		m.grace.until = end
	}
	if m.grace.active {
		return
	}
	m.grace.active = true
	m.graces.Add(context.Background(), 1, m.set())
	time.AfterFunc(left, m.endGrace)
}

// endGrace notes the end of the grace period, unless another has begun meanwhile.
func (m *meters) endGrace() {
	m.grace.mu.Lock()
	defer m.grace.mu.Unlock()
	if left := time.Until(m.grace.until); left > 0 {
		time.AfterFunc(left, m.endGrace)
		return
	}
	m.grace.active = false
	m.graces.Add(context.Background(), -1, m.set())
}
