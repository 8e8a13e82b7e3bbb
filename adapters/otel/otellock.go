// Package otellock traces and measures the locks of lockport with OpenTelemetry.
//
// Each Acquire and TryAcquire is a span "lockport.acquire", a child of the caller's span. A loss is an event "lockport.lost" of the caller's
// span, if that has not ended. The README lists the metrics.
package otellock

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockport/lockport"
)

// Options are the options of Hooks. The zero value is right for most programs.
type Options struct {
	// TracerProvider creates the spans. Default: the global one. That of go.opentelemetry.io/otel/trace/noop creates none.
	TracerProvider trace.TracerProvider
	// MeterProvider records the metrics. Default: the global one. That of go.opentelemetry.io/otel/metric/noop records none.
	MeterProvider metric.MeterProvider
	// Names gives spans, events and metrics the attribute "lockport.name", the lock's name. Each name adds series to every metric until the process
	// ends: set it only for a small, fixed set of names. Default: no such attribute.
	Names bool
}

// scope names the instrumentation.
const scope = "github.com/lockport/lockport/adapters/otel"

// The attributes.
const (
	backendKey   = attribute.Key("lockport.backend")
	nameKey      = attribute.Key("lockport.name")
	outcomeKey   = attribute.Key("lockport.outcome")
	reasonKey    = attribute.Key("lockport.reason")
	tokenKey     = attribute.Key("lockport.token")
	handedOffKey = attribute.Key("lockport.handed_off")
)

// Hooks returns hooks for [lockport.Observe]. Several Clients can share them. An error comes from the MeterProvider.
func Hooks(o Options) (lockport.Hooks, error) {
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	m, err := newMetrics(o)
	if err != nil {
		return lockport.Hooks{}, err
	}
	s := &spans{o.TracerProvider.Tracer(scope)}
	return lockport.Hooks{
		AcquireStart: func(ctx context.Context, e lockport.AcquireEvent) context.Context {
			l := m.of(e.Backend, e.Name)
			m.waiting.Add(ctx, 1, l.add...)
			return s.begin(ctx, l)
		},
		AcquireDone: func(ctx context.Context, e lockport.AcquireEvent) {
			m.acquired(ctx, e)
			s.end(ctx, e)
		},
		Released: m.ended,
		Lost: func(e lockport.HoldEvent) {
			m.ended(e)
			m.lost(e)
			s.lost(e, m.of(e.Backend, e.Name))
		},
		Renewed: m.renewed,
	}, nil
}

// spans makes spans and their events.
type spans struct{ tracer trace.Tracer }

// The keys of a context, for each Hooks: several may be chained.
type (
	spanKey   struct{ of *spans } // the span of the acquisition
	callerKey struct{ of *spans } // the caller's span, if that records
)

// begin starts the span of an acquisition.
func (s *spans) begin(ctx context.Context, l *lock) context.Context {
	caller := trace.SpanFromContext(ctx)
	ctx, span := s.tracer.Start(ctx, "lockport.acquire", l.start...)
	ctx = context.WithValue(ctx, spanKey{s}, span)
	if caller.IsRecording() {
		ctx = context.WithValue(ctx, callerKey{s}, caller)
	}
	return ctx
}

// end ends the span of an acquisition. For TryAcquire, a held lock is an answer, not an error.
func (s *spans) end(ctx context.Context, e lockport.AcquireEvent) {
	outcome := e.Outcome()
	span, ok := ctx.Value(spanKey{s}).(trace.Span)
	if !ok {
		return
	}
	if span.IsRecording() {
		span.SetAttributes(outcomeKey.String(outcome))
		if e.Err == nil {
			span.SetAttributes(tokenKey.Int64(int64(e.Token)), handedOffKey.Bool(e.HandedOff))
		} else if outcome != "held" {
			span.SetStatus(codes.Error, reason(e.Err))
		}
	}
	span.End()
}

// reason is err without the lock's name.
func reason(err error) string {
	var of *lockport.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return err.Error()
}

// lost adds the event of a loss to the caller's span. A span that has ended does not record it.
func (s *spans) lost(e lockport.HoldEvent, l *lock) {
	if caller, ok := e.Context.Value(callerKey{s}).(trace.Span); ok {
		caller.AddEvent("lockport.lost", trace.WithAttributes(append(l.attributes, reasonKey.String(e.Reason()))...))
	}
}
