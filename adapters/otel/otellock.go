// Package otellock traces and measures the locks of lockport with OpenTelemetry.
//
// Each Acquire, TryAcquire and Attach is a span "lockport.acquire", a child of the caller's span. A loss is an event "lockport.lost" of the caller's
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
	errorTypeKey = attribute.Key("error.type") // of the semantic conventions
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
	h := &hooks{m, o.TracerProvider.Tracer(scope)}
	return lockport.Hooks{AcquireStart: h.acquireStart, AcquireDone: h.acquireDone, Released: h.ended, Lost: h.lost, Renewed: h.renewed}, nil
}

type hooks struct {
	*metrics
	tracer trace.Tracer
}

// acquisition has the span of an acquisition, and that of its caller. It is the value of its context's key h: several Hooks may be chained.
type acquisition struct{ span, caller trace.Span }

func (h *hooks) acquireStart(ctx context.Context, e lockport.AcquireEvent) context.Context {
	l := h.of(e.Backend, e.Name)
	h.waiting.Add(ctx, 1, l.add...)
	a := acquisition{caller: trace.SpanFromContext(ctx)}
	ctx, a.span = h.tracer.Start(ctx, "lockport.acquire", l.start...)
	return context.WithValue(ctx, h, a)
}

// failed reports whether an acquisition failed. For TryAcquire, a held lock is an answer, not an error.
func failed(e lockport.AcquireEvent) bool { return e.Err != nil && e.Outcome() != "held" }

// outcome are the attributes of the end of an acquisition, for its span and its metric.
func outcome(e lockport.AcquireEvent) []attribute.KeyValue {
	all := []attribute.KeyValue{outcomeKey.String(e.Outcome())}
	if failed(e) {
		all = append(all, errorTypeKey.String(e.Outcome()))
	}
	return all
}

// acquireDone ends the span.
func (h *hooks) acquireDone(ctx context.Context, e lockport.AcquireEvent) {
	h.acquired(ctx, e)
	a, ok := ctx.Value(h).(acquisition)
	if !ok {
		return
	}
	if a.span.IsRecording() {
		a.span.SetAttributes(outcome(e)...)
		if e.Err == nil {
			a.span.SetAttributes(tokenKey.Int64(int64(e.Token)), handedOffKey.Bool(e.HandedOff))
		} else if failed(e) {
			a.span.SetStatus(codes.Error, reason(e.Err))
		}
	}
	a.span.End()
}

// reason is err without the lock's name.
func reason(err error) string {
	var of *lockport.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return err.Error()
}

// lost counts a loss, and adds its event to the caller's span. A span that has ended does not record it.
func (h *hooks) lost(e lockport.HoldEvent) {
	h.ended(e)
	l, because := h.of(e.Backend, e.Name), reasonKey.String(e.Reason())
	h.losses.Add(e.Context, 1, l.with(because))
	if a, ok := e.Context.Value(h).(acquisition); ok {
		a.caller.AddEvent("lockport.lost", trace.WithAttributes(append(l.attributes, because)...))
	}
}
