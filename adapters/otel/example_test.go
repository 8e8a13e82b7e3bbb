package otellock_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/lockport/lockport"
	otellock "github.com/lockport/lockport/adapters/otel"
	"github.com/lockport/lockport/backend/memory"
)

func Example() {
	spans := tracetest.NewInMemoryExporter() // in your program: an exporter of OTLP
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	hooks, _ := otellock.Hooks(otellock.Options{TracerProvider: provider}) // metrics go to the global MeterProvider
	locker, _ := memory.New(memory.Options{}, lockport.Observe(hooks))     // or redis.New, …
	defer locker.Close()

	err := lockport.Do(context.Background(), locker, "nightly-report", func(context.Context, *lockport.Lock) error { return nil })
	fmt.Println(err)
	for _, span := range spans.GetSpans() {
		fmt.Println(span.Name, span.Attributes[0].Key, span.Attributes[0].Value.AsString())
	}
	// Output:
	// <nil>
	// lockport.acquire lockport.backend memory
}
