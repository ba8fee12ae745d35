// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"errors"
	"testing"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/otelfencelock"
)

func TestRejectionsAreCounted(t *testing.T) {
	p := &process{reader: sdkmetric.NewManualReader()}
	r, err := otelfencelock.NewRejections(&otelfencelock.Options{Class: otelfencelock.Template,
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(p.reader))})
	must.OK(t, err)
	p.wantMetrics(t, map[string]int64{"fencelock.fence.rejections{}": 0})
	stale := fence.Check(fence.Mark{Lock: "orders/42", Token: 512}, fence.Mark{Lock: "orders/42", Token: 256})
	for _, err := range []error{nil, errors.New("disk full"), fence.ErrNoToken, stale, fence.ErrStale} {
		if got := r.Count(context.Background(), err); got != err {
			t.Errorf("Count returned %v, want %v as it was", got, err)
		}
	}
	p.wantMetrics(t, map[string]int64{
		"fencelock.fence.rejections{}":                           2, // the bare error names no lock
		"fencelock.fence.rejections.by_class{class=orders/{id}}": 1,
	})
}
