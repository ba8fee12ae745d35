// SPDX-License-Identifier: Apache-2.0

package otelfencelock

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/fencelock/fencelock/fence"
)

// Rejections counts the late holders that guards refused. A guard stands at the
// resource and knows no client, so this is apart from New.
type Rejections struct {
	classes        classes
	total, byClass metric.Int64Counter
}

// NewRejections makes a counter; opts may be nil.
func NewRejections(opts *Options) (*Rejections, error) {
	s, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	meter := s.MeterProvider.Meter(scope)
	r := &Rejections{}
	var errs [2]error
	r.total, errs[0] = meter.Int64Counter("fencelock.fence.rejections", metric.WithUnit("{write}"),
		metric.WithDescription("Late holders that a guard refused."))
	r.byClass, errs[1] = meter.Int64Counter("fencelock.fence.rejections.by_class", metric.WithUnit("{write}"),
		metric.WithDescription("The same rejections, by class."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("otelfencelock: %w", err)
	}
	r.classes = classes{of: s.Class, most: s.MaxClasses, fresh: func(string) {}}
	// An alert reads the total: it begins at zero before the first rejection,
	// which the series of a class does not.
	r.total.Add(context.Background(), 0)
	return r, nil
}

// Count returns err as it is. If it is a guard's refusal of a stale token, it is
// counted, and recorded on the span of ctx; other errors are not.
func (r *Rejections) Count(ctx context.Context, err error) error {
	if !errors.Is(err, fence.ErrStale) {
		return err
	}
	lock := ""
	var stale *fence.StaleError
	if errors.As(err, &stale) {
		lock = stale.Given.Lock
	}
	r.total.Add(ctx, 1)
	if class := r.classes.class(lock); class != "" {
		r.byClass.Add(ctx, 1, metric.WithAttributes(classKey.String(class)))
	}
	trace.SpanFromContext(ctx).AddEvent("stale token refused", trace.WithAttributes(lockKey.String(lock)))
	return err
}
