package otellock_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockport/lockport"
	otellock "github.com/lockport/lockport/adapters/otel"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/internal/lab/peer"
)

// telemetry is an SDK whose spans and metrics a test can read.
type telemetry struct {
	*testing.T
	spans  *tracetest.SpanRecorder
	reader *sdkmetric.ManualReader
	tracer trace.Tracer
	hooks  lockport.Hooks
}

func observe(t *testing.T, names bool) *telemetry {
	s := &telemetry{T: t, spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	traces := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans))
	s.tracer = traces.Tracer("test")
	s.hooks = peer.Must(otellock.Hooks(otellock.Options{
		TracerProvider: traces, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.reader)), Names: names,
	}))(t)
	return s
}

// values returns the metrics as "name unit {label=value}"; for a histogram, its count and sum.
func (s *telemetry) values() map[string]float64 {
	all := make(map[string]float64)
	var data metricdata.ResourceMetrics
	require.NoError(s, s.reader.Collect(context.Background(), &data))
	for _, m := range data.ScopeMetrics[0].Metrics {
		name := func(of string, attributes attribute.Set) string {
			require.True(s, utf8.ValidString(fmt.Sprint(attributes.ToSlice())), "no exporter can encode it")
			return fmt.Sprintf("%s%s %s {%s}", m.Name, of, m.Unit, strings.ReplaceAll(attributes.Encoded(attribute.DefaultEncoder()), "lockport.", ""))
		}
		switch d := m.Data.(type) {
		case metricdata.Sum[int64]:
			for _, p := range d.DataPoints {
				all[name("", p.Attributes)] = float64(p.Value)
			}
		case metricdata.Histogram[float64]:
			for _, p := range d.DataPoints {
				all[name(" count", p.Attributes)], all[name(" sum", p.Attributes)] = float64(p.Count), p.Sum
			}
		}
	}
	return all
}

// ended returns the ended spans of that name, one line each: parent, attributes, status, events.
func (s *telemetry) ended(name string) (lines []string) {
	parents := make(map[trace.SpanID]string)
	for _, span := range s.spans.Started() {
		parents[span.SpanContext().SpanID()] = span.Name()
	}
	encode := func(of []attribute.KeyValue) string {
		set := attribute.NewSet(of...)
		return strings.ReplaceAll(set.Encoded(attribute.DefaultEncoder()), "lockport.", "")
	}
	for _, span := range s.spans.Ended() {
		if span.Name() != name {
			continue
		}
		line := fmt.Sprintf("below %q {%s}", parents[span.Parent().SpanID()], encode(span.Attributes()))
		if status := span.Status(); status.Code != codes.Unset {
			line += fmt.Sprintf(" %s: %s", status.Code, status.Description)
		}
		for _, e := range span.Events() {
			line += fmt.Sprintf(" %s {%s}", e.Name, encode(e.Attributes))
		}
		lines = append(lines, line)
	}
	return lines
}

func TestTelemetry(t *testing.T) {
	want := map[string]float64{
		"lockport.waiting {call} {backend=memory}":                                              0,
		"lockport.held {lock} {backend=memory}":                                                 1,
		"lockport.acquire.duration count s {backend=memory,outcome=acquired}":                   3,
		"lockport.acquire.duration sum s {backend=memory,outcome=acquired}":                     3,
		"lockport.acquire.duration count s {backend=memory,outcome=held}":                       1,
		"lockport.acquire.duration sum s {backend=memory,outcome=held}":                         0,
		"lockport.acquire.duration count s {error.type=timeout,backend=memory,outcome=timeout}": 1,
		"lockport.acquire.duration sum s {error.type=timeout,backend=memory,outcome=timeout}":   2,
		"lockport.hold.duration count s {backend=memory}":                                       2,
		"lockport.hold.duration sum s {backend=memory}":                                         5 + 1,
		"lockport.losses {lock} {backend=memory,reason=removed}":                                1,
		"lockport.losses {lock} {backend=memory,reason=silence}":                                0,
		"lockport.losses {lock} {backend=memory,reason=max_hold}":                               0,
		"lockport.losses {lock} {backend=memory,reason=outer_released}":                         0,
		"lockport.renewal.failures {renewal} {backend=memory}":                                  1,
		"lockport.renewal.validity count 1 {backend=memory}":                                    2,
		"lockport.renewal.validity sum 1 {backend=memory}":                                      0.75,
	}
	acquires := []string{
		`below "job" {backend=memory,handed_off=false,outcome=acquired,token=1024}`,
		`below "job" {backend=memory,outcome=held}`,
		`below "job" {error.type=timeout,backend=memory,outcome=timeout} Error: context deadline exceeded`,
		`below "job" {backend=memory,handed_off=true,outcome=acquired,token=1025}`,
		`below "job" {backend=memory,handed_off=false,outcome=acquired,token=2048}`,
	}
	for _, names := range []bool{false, true} {
		s := observe(t, names)
		ctx, job := s.tracer.Start(t.Context(), "job")
		acquire := func(e lockport.AcquireEvent) context.Context {
			e.Backend, e.Name = "memory", "nightly\xff" // Acquire refuses it, but hooks see it
			ctx := s.hooks.AcquireStart(ctx, lockport.AcquireEvent{Backend: e.Backend, Name: e.Name})
			s.hooks.AcquireDone(ctx, e)
			return ctx
		}
		first := acquire(lockport.AcquireEvent{Token: 1024})
		acquire(lockport.AcquireEvent{Err: lockport.ErrHeld})
		acquire(lockport.AcquireEvent{Wait: 2 * time.Second, Err: &lockport.Error{Op: "acquire", Name: "name=nightly", Err: context.DeadlineExceeded}})
		acquire(lockport.AcquireEvent{Token: 1025, HandedOff: true, Wait: 3 * time.Second})
		lost, cancel := context.WithCancel(acquire(lockport.AcquireEvent{Token: 2048}))
		cancel() // a hold outlives its context, and so do its metrics
		renewed := lockport.RenewEvent{Backend: "memory", Name: "nightly\xff", TTL: 8 * time.Second, Left: 5 * time.Second}
		s.hooks.Renewed(renewed)
		renewed.Left, renewed.Err = time.Second, lockport.ErrUnavailable
		s.hooks.Renewed(renewed)
		s.hooks.Released(lockport.HoldEvent{Context: first, Backend: "memory", Name: "nightly\xff", Held: 5 * time.Second})
		s.hooks.Lost(lockport.HoldEvent{Context: lost, Backend: "memory", Name: "nightly\xff", Held: time.Second, Err: lockport.ErrLost})
		job.End()

		without := func(line string) string { // the name: every line has it, or none
			require.Equal(t, names, strings.Contains(line, "name=nightly\uFFFD"), line)
			return strings.Replace(line, ",name=nightly\uFFFD", "", 1)
		}
		got := make(map[string]float64)
		for series, value := range s.values() {
			got[without(series)] = value
		}
		require.Equal(t, want, got)
		var lines []string
		for _, line := range s.ended("lockport.acquire") {
			lines = append(lines, without(line))
		}
		require.Equal(t, acquires, lines)
		require.Contains(t, without(s.ended("job")[0]), ` lockport.lost {backend=memory,reason=removed}`)
	}
}

func TestChainedHooks(t *testing.T) {
	require.NoError(t, peer.ErrOf(otellock.Hooks(otellock.Options{})), "the global providers")
	a, b := observe(t, false), observe(t, false)
	peer.Holds(t, peer.Client(t, memorytest.NewBackend(nil, nil), lockport.Observe(a.hooks), lockport.Observe(b.hooks)), "job")
	require.Len(t, a.ended("lockport.acquire"), 1)
	require.Len(t, b.ended("lockport.acquire"), 1)
	require.Contains(t, a.values(), "lockport.renewal.failures {renewal} {backend=memory}", "the first failure must be an increase")
}
