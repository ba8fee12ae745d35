// SPDX-License-Identifier: Apache-2.0

package otelfence

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
	classes classes
	counter metric.Int64Counter
}

// NewRejections makes a counter; opts may be nil.
func NewRejections(opts *Options) (*Rejections, error) {
	s, err := opts.settled()
	if err != nil {
		return nil, err
	}
	r := &Rejections{}
	r.counter, err = s.MeterProvider.Meter(scope).Int64Counter("fencelock.fence.rejections", metric.WithUnit("{write}"),
		metric.WithDescription("Late holders that a guard refused."))
	if err != nil {
		return nil, fmt.Errorf("otelfence: %w", err)
	}
	r.classes = classes{of: s.Class, most: s.MaxClasses, fresh: func(class string) { r.add(context.Background(), 0, class) }}
	r.add(context.Background(), 0, "")
	return r, nil
}

// Count returns err as it is. If it is a guard's refusal of a stale token, it is
// counted, and told on the span of ctx; other errors are not.
func (r *Rejections) Count(ctx context.Context, err error) error {
	if !errors.Is(err, fence.ErrStale) {
		return err
	}
	lock := ""
	var stale *fence.StaleError
	if errors.As(err, &stale) {
		lock = stale.Given.Lock
	}
	r.add(ctx, 1, r.classes.class(lock))
	trace.SpanFromContext(ctx).AddEvent("stale token refused", trace.WithAttributes(lockKey.String(lock)))
	return err
}

func (r *Rejections) add(ctx context.Context, n int64, class string) {
	if class == "" {
		r.counter.Add(ctx, n)
		return
	}
	r.counter.Add(ctx, n, metric.WithAttributes(classKey.String(class)))
}
