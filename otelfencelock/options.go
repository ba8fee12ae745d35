// SPDX-License-Identifier: Apache-2.0

package otelfencelock

import (
	"errors"
	"fmt"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// DefaultMaxClasses is how many classes a client's metrics distinguish.
const DefaultMaxClasses = 100

// scope names what the metrics and spans come from.
const scope = "github.com/fencelock/fencelock/otelfencelock"

// Options of the telemetry. The zero value is good for most; nil is the same.
type Options struct {
	// MeterProvider and TracerProvider are where metrics and spans go. Default:
	// the global ones.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider
	// Class maps a lock name to the class that metrics and the names of spans
	// carry. It must return quickly and the same class for the same name. An
	// empty class is left out, and a panic makes it "other". Default: none, for no function can know which
	// part of a name is an id; see Template.
	Class func(lock string) string
	// MaxClasses bounds how many classes are distinguished; those beyond are
	// "other". Default DefaultMaxClasses.
	MaxClasses int
}

// withDefaults returns the options with defaults filled in, or what is wrong.
func (o *Options) withDefaults() (Options, error) {
	var s Options
	if o != nil {
		s = *o
	}
	if s.MaxClasses < 0 {
		return s, fmt.Errorf("otelfencelock: Options.MaxClasses is %d; it must be positive", s.MaxClasses)
	}
	if s.MaxClasses == 0 {
		s.MaxClasses = DefaultMaxClasses
	}
	if s.MeterProvider == nil {
		s.MeterProvider = otel.GetMeterProvider()
	}
	if s.TracerProvider == nil {
		s.TracerProvider = otel.GetTracerProvider()
	}
	return s, nil
}

// New is fencelock.New with telemetry: the client behaves the same and fails
// with the same errors. Hooks in opts are called too, before those of the
// telemetry. opts and tel may be nil.
func New(store driver.Store, opts *fencelock.Options, tel *Options) (*fencelock.Client, error) {
	if store == nil {
		return nil, errors.New("otelfencelock: New needs a store, for example memstore.New(nil)")
	}
	config, err := tel.withDefaults()
	if err != nil {
		return nil, err
	}
	m, err := newMeters(config.MeterProvider, store.Caps().Engine)
	if err != nil {
		return nil, fmt.Errorf("otelfencelock: %w", err)
	}
	m.classes = classes{of: config.Class, most: config.MaxClasses, fresh: m.announce}
	m.announceAll()
	t := &telemetry{m: m, tracer: config.TracerProvider.Tracer(scope)}
	var with fencelock.Options
	if opts != nil {
		with = *opts
	}
	t.user = with.Hooks
	with.Hooks = t.hooks()
	return fencelock.New(&meteredStore{Store: store, m: m}, &with)
}
