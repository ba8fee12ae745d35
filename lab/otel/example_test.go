// SPDX-License-Identifier: Apache-2.0

package otel_test

import (
	"context"
	"errors"
	"fmt"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/otelfencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// A request finds the lock taken. Its span links to the trace of the request
// that holds it, and the metrics know the class of the lock, not its name.
func Example() {
	reader, spans := sdkmetric.NewManualReader(), tracetest.NewSpanRecorder()
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	tel := &otelfencelock.Options{
		MeterProvider:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		TracerProvider: traces,
		Class:          otelfencelock.Template,
	}
	store := memstore.New(nil) // the same for both; in real life two processes
	us, err := otelfencelock.New(store, &fencelock.Options{Owner: "us"}, tel)
	if err != nil {
		fmt.Println(err)
		return
	}
	them, err := otelfencelock.New(store, &fencelock.Options{Owner: "them"}, tel)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer us.Close(context.Background())
	defer them.Close(context.Background())

	ctx, request := traces.Tracer("shop").Start(context.Background(), "their request")
	err = them.Do(ctx, "orders/42", func(context.Context, *fencelock.Lease) error {
		_, err := us.Mutex("orders/42").TryLock(context.Background())
		fmt.Println("busy:", errors.Is(err, fencelock.ErrBusy))
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}

	for _, s := range spans.Ended() {
		for _, l := range s.Links() {
			fmt.Printf("span %q links to their request: %v\n", s.Name(), l.SpanContext.TraceID() == request.SpanContext().TraceID())
		}
	}
	var measured metricdata.ResourceMetrics
	if err := reader.Collect(context.Background(), &measured); err != nil {
		fmt.Println(err)
	}
	for _, m := range measured.ScopeMetrics[0].Metrics {
		if sum, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "fencelock.acquisitions" {
			class, _ := sum.DataPoints[0].Attributes.Value("fencelock.class")
			fmt.Println(m.Name, class.AsString(), sum.DataPoints[0].Value)
		}
	}
	// Output:
	// busy: true
	// span "acquire orders/{id}" links to their request: true
	// fencelock.acquisitions orders/{id} 1
}
