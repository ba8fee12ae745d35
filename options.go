// SPDX-License-Identifier: Apache-2.0

package fencelock

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/enum"
	"github.com/fencelock/fencelock/internal/timing"
)

// DefaultTTL is how long a lock outlives the process that holds it, unless Options.TTL is set.
const DefaultTTL = timing.DefaultTTL

// minTTL keeps out a number that was meant to be seconds.
const minTTL = 10 * time.Millisecond

// maxTime keeps sums of times far from an overflow: a waiter whose next poll is in the past
// would poll without a pause.
const maxTime = 365 * 24 * time.Hour

// Need is what the locks of a client are for.
type Need uint8

const (
	// Efficiency: doing the work twice costs time or money, nothing else.
	Efficiency Need = iota
	// Correctness: doing it twice corrupts something. New then refuses a store
	// that cannot give strict fencing tokens or that may lose a grant and
	// give the lock to a second holder in time.
	Correctness
)

// String returns the need in lower case.
func (n Need) String() string { return enum.String("need", n, "efficiency", "correctness") }

// Options of a Client. The zero value is good for most; nil is the same. Bad
// values make New fail.
type Options struct {
	// TTL is how long the store keeps this process's locks after it was last
	// heard of. About three keep-alives per shard and TTL keep all of them. A
	// longer TTL tolerates longer outages of the store and the network, a
	// shorter one frees the locks of a dead process sooner. At most the store's MaxTTL
	// and a year. Default DefaultTTL, or the store's MaxTTL if that is shorter.
	TTL time.Duration
	// Drift is the share of the TTL by which the store's clock and ours may
	// disagree on its length; steps of a clock are not covered by any share.
	// Default 0.01, one percent.
	Drift float64
	// Margin is also taken off the end of the trusted time: the time a holder has to
	// stop after it was notified. Default TTL/10.
	Margin time.Duration
	// CallTimeout bounds one call to the store, whatever the TTL: a year at
	// most. Default TTL/3.
	CallTimeout time.Duration
	// StoreTimeout is how long an acquisition goes on trying a store that does not
	// answer before it returns ErrUnavailable. Default TTL.
	StoreTimeout time.Duration
	// LocalHandoff is how long after its grant a lock may be handed to the next
	// waiter of this client without a round trip, at most 255 times in a row: as
	// often as tokens fit between two of the store. Default 100 ms; a
	// negative value switches it off.
	LocalHandoff time.Duration
	// Require makes New fail if the store cannot give it. Default Efficiency.
	Require Need
	// Owner names this process in holder records. Default user@host:pid.
	Owner string
	// Labels are added to every holder record.
	Labels map[string]string
	// Hooks are called on what happens.
	Hooks Hooks
	// Logger gets one line per transition, never one per renewal. Default:
	// nothing is logged.
	Logger *slog.Logger
}

// withDefaults returns the options with defaults filled in, or what is wrong.
func (o *Options) withDefaults(caps driver.Caps) (Options, error) {
	var s Options
	if o != nil {
		s = *o
	}
	if s.TTL == 0 {
		s.TTL = DefaultTTL
		if caps.MaxTTL > 0 {
			s.TTL = min(s.TTL, caps.MaxTTL)
		}
		s.TTL = max(s.TTL, caps.MinTTL)
	}
	setDefault(&s.Drift, timing.DefaultDrift)
	setDefault(&s.Margin, s.TTL/10)
	setDefault(&s.CallTimeout, s.TTL/3)
	setDefault(&s.StoreTimeout, s.TTL)
	setDefault(&s.LocalHandoff, timing.DefaultLocalHandoff)
	setDefault(&s.Owner, defaultOwner())
	s.Labels = maps.Clone(s.Labels)
	return s, s.check(caps)
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

func (o *Options) check(caps driver.Caps) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if least := max(caps.MinTTL, minTTL); o.TTL < least {
		bad("Options.TTL is %v; on the %s store it must be at least %v", o.TTL, caps.Engine, least)
	}
	most := maxTime
	if caps.MaxTTL > 0 {
		most = min(most, caps.MaxTTL)
	}
	if o.TTL > most {
		bad("Options.TTL is %v; on the %s store it must be at most %v", o.TTL, caps.Engine, most)
	}
	if !(o.Drift >= 0 && o.Drift < 0.5) { // NaN too
		bad("Options.Drift is %v; it is a share of the TTL and must be below 0.5", o.Drift)
	}
	if trust := timing.Trust(o.TTL, o.Drift, o.Margin); o.Margin < 0 || trust < o.TTL/2 {
		bad("Options.Margin is %v: with a TTL of %v the lease would be trusted for only %v; at least half of the TTL must be left", o.Margin, o.TTL, trust)
	}
	if o.CallTimeout < 0 || o.CallTimeout > maxTime {
		bad("Options.CallTimeout is %v; it must be positive and at most %v", o.CallTimeout, maxTime)
	}
	if o.StoreTimeout < 0 {
		bad("Options.StoreTimeout is %v; it must be positive", o.StoreTimeout)
	}
	if o.Require > Correctness {
		bad("Options.Require is %d; it must be Efficiency or Correctness", o.Require)
	}
	if err := checkRecord(&driver.Record{Owner: o.Owner, Labels: o.Labels}); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// defaultOwner is user@host:pid, as far as the system has them.
func defaultOwner() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil && u.Username != "" {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil && h != "" {
		host = h
	}
	return strings.ToValidUTF8(fmt.Sprintf("%s@%s:%d", name, host, os.Getpid()), "?")
}
