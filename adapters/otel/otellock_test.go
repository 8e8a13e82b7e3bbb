package otellock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/lockport/lockport"
	otellock "github.com/lockport/lockport/adapters/otel"
	"github.com/lockport/lockport/backend/memory/memorytest"
)

// telemetry is an SDK whose spans and metrics a test can look at.
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
	var err error
	s.hooks, err = otellock.Hooks(otellock.Options{
		TracerProvider: traces, MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(s.reader)), Names: names,
	})
	require.NoError(t, err)
	return s
}

// values returns what was measured: "name unit {label=value}", and of a histogram its count and its sum.
func (s *telemetry) values() map[string]float64 {
	all := make(map[string]float64)
	var data metricdata.ResourceMetrics
	require.NoError(s, s.reader.Collect(context.Background(), &data))
	for _, m := range data.ScopeMetrics[0].Metrics {
		name := func(of string, attributes attribute.Set) string {
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

// ended returns the ended spans of that name, in a line each: duration, parent, attributes, status, events.
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
		line := fmt.Sprintf("%v below %q {%s}", span.EndTime().Sub(span.StartTime()), parents[span.Parent().SpanID()], encode(span.Attributes()))
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
		"lockport.waiting {call} {backend=memory}":                            0,
		"lockport.held {lock} {backend=memory}":                               0,
		"lockport.acquire.duration count s {backend=memory,outcome=acquired}": 3,
		"lockport.acquire.duration sum s {backend=memory,outcome=acquired}":   3,
		"lockport.acquire.duration count s {backend=memory,outcome=held}":     1,
		"lockport.acquire.duration sum s {backend=memory,outcome=held}":       0,
		"lockport.acquire.duration count s {backend=memory,outcome=timeout}":  1,
		"lockport.acquire.duration sum s {backend=memory,outcome=timeout}":    2,
		"lockport.hold.duration count s {backend=memory}":                     3,
		"lockport.hold.duration sum s {backend=memory}":                       5 + 1 + 2,
		"lockport.losses {lock} {backend=memory,reason=removed}":              1,
		"lockport.losses {lock} {backend=memory,reason=silence}":              0,
		"lockport.losses {lock} {backend=memory,reason=max_hold}":             0,
		"lockport.losses {lock} {backend=memory,reason=outer_released}":       0,
		"lockport.renewal.failures {renewal} {backend=memory}":                0,
		"lockport.renewal.validity count 1 {backend=memory}":                  1,
	}
	acquires := []string{
		`0s below "job" {backend=memory,handed_off=false,outcome=acquired,token=1024}`,
		`0s below "job" {backend=memory,outcome=held}`,
		`2s below "job" {backend=memory,outcome=timeout} Error: context deadline exceeded while waiting: lock is held by another client`,
		`3s below "job" {backend=memory,handed_off=false,outcome=acquired,token=2048}`,
		`0s below "job" {backend=memory,handed_off=false,outcome=acquired,token=3072}`,
	}
	for _, names := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := observe(t, names)
			b := memorytest.NewBackend(nil, nil)
			c, err := lockport.New(b, lockport.TTL(12*time.Second), lockport.Logger(nil), lockport.Observe(s.hooks))
			require.NoError(t, err)
			ctx, job := s.tracer.Start(t.Context(), "job")
			first, err := c.Acquire(ctx, "nightly")
			require.NoError(t, err)
			_, err = c.TryAcquire(ctx, "nightly")
			require.ErrorIs(t, err, lockport.ErrHeld)
			soon, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			_, err = c.Acquire(soon, "nightly")
			require.ErrorIs(t, err, context.DeadlineExceeded)
			go func() {
				next, err := c.Acquire(ctx, "nightly")
				require.NoError(t, err)
				time.Sleep(time.Second)
				require.NoError(t, next.Release(ctx))
			}()
			time.Sleep(3 * time.Second)
			require.NoError(t, first.Release(ctx))
			time.Sleep(2 * time.Second)
			canceled, cancel := context.WithCancel(ctx)
			lost, err := c.Acquire(canceled, "nightly")
			require.NoError(t, err)
			cancel() // which a hold outlives, and so must what is measured of it
			time.Sleep(2 * time.Second)
			b.Server().Lose("nightly", errors.New("by a test"))
			<-lost.Lost()
			synctest.Wait()
			job.End()
			require.NoError(t, c.Close())

			without := func(s string) string { // the name, which is to be everywhere or nowhere
				require.Equal(t, names, strings.Contains(s, "name=nightly"), s)
				return strings.Replace(s, ",name=nightly", "", 1)
			}
			got := make(map[string]float64)
			for series, value := range s.values() {
				got[without(series)] = value
			}
			const left = "lockport.renewal.validity sum 1 {backend=memory}"
			require.InDelta(t, 0.62, got[left], 0.05)
			delete(got, left)
			require.Equal(t, want, got)
			var lines []string
			for _, line := range s.ended("lockport.acquire") {
				line, _, _ = strings.Cut(line, ": by ") // the process
				lines = append(lines, without(line))
			}
			require.Equal(t, acquires, lines)
			jobs := s.ended("job")
			require.Len(t, jobs, 1)
			require.Contains(t, without(jobs[0]), ` lockport.lost {backend=memory,reason=removed}`)
		})
	}
}

// A server that falls silent shows in the metrics before the lock is lost, and then as a loss, also on the span of the work.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, faults := observe(t, false), new(memorytest.Faults)
		c, err := lockport.New(memorytest.NewBackend(nil, faults), lockport.TTL(12*time.Second), lockport.Logger(nil), lockport.Observe(s.hooks))
		require.NoError(t, err)
		ctx, job := s.tracer.Start(t.Context(), "job")
		lock, err := c.Acquire(ctx, "job")
		require.NoError(t, err)
		faults.Fail(lockport.ErrUnavailable)
		<-lock.Lost()
		synctest.Wait()
		require.EqualValues(t, 1, s.values()["lockport.losses {lock} {backend=memory,reason=silence}"])
		require.Positive(t, s.values()["lockport.renewal.failures {renewal} {backend=memory}"])
		require.Len(t, job.(sdktrace.ReadOnlySpan).Events(), 1)
		faults.Restore()
		require.NoError(t, c.Close())
	})
}

// What it costs: the hooks of a cycle.
func BenchmarkHooks(b *testing.B) {
	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewManualReader()))
	traces := sdktrace.NewTracerProvider()
	unsampled := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	for what, o := range map[string]otellock.Options{
		"metrics":           {MeterProvider: meters, TracerProvider: tracenoop.NewTracerProvider()},
		"spans":             {MeterProvider: metricnoop.NewMeterProvider(), TracerProvider: traces},
		"spans not sampled": {MeterProvider: metricnoop.NewMeterProvider(), TracerProvider: unsampled},
	} {
		hooks, err := otellock.Hooks(o)
		require.NoError(b, err)
		b.Run(what, func(b *testing.B) {
			b.ReportAllocs()
			background := b.Context()
			for b.Loop() {
				ctx := hooks.AcquireStart(background, lockport.AcquireEvent{Backend: "memory", Name: "job"})
				hooks.AcquireDone(ctx, lockport.AcquireEvent{Backend: "memory", Name: "job", Token: 1024, Wait: time.Millisecond})
				hooks.Released(lockport.HoldEvent{Context: ctx, Backend: "memory", Name: "job", Token: 1024, Held: time.Second})
			}
		})
	}
}
