package otellock

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/lockport/lockport"
)

// metrics are the instruments, and the attributes of the locks seen so far.
type metrics struct {
	names bool

	waiting, held           metric.Int64UpDownCounter
	acquire, hold, validity metric.Float64Histogram
	losses, failures        metric.Int64Counter

	locks sync.Map // of key to *lock
}

// key identifies a lock's series: name is empty without Options.Names.
type key struct{ backend, name string }

// lock has the attributes of a key, in each form that is needed.
type lock struct {
	attributes []attribute.KeyValue // clipped
	add        []metric.AddOption
	record     []metric.RecordOption
	acquired   []metric.RecordOption // with the outcome
	start      []trace.SpanStartOption
}

func newMetrics(o Options) (*metrics, error) {
	if o.MeterProvider == nil {
		o.MeterProvider = otel.GetMeterProvider()
	}
	meter := o.MeterProvider.Meter(scope)
	// From a hand-off inside the process to a job of an hour.
	seconds := metric.WithExplicitBucketBoundaries(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600)
	shares := metric.WithExplicitBucketBoundaries(0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
	m, errs := &metrics{names: o.Names}, make([]error, 7)
	m.waiting, errs[0] = meter.Int64UpDownCounter("lockport.waiting", metric.WithUnit("{call}"),
		metric.WithDescription("Acquire, TryAcquire and Attach calls that have not returned."))
	m.held, errs[1] = meter.Int64UpDownCounter("lockport.held", metric.WithUnit("{lock}"), metric.WithDescription("Locks held."))
	m.acquire, errs[2] = meter.Float64Histogram("lockport.acquire.duration", metric.WithUnit("s"), seconds,
		metric.WithDescription("How long Acquire, TryAcquire and Attach took, by outcome."))
	m.hold, errs[3] = meter.Float64Histogram("lockport.hold.duration", metric.WithUnit("s"), seconds,
		metric.WithDescription("How long locks were held, until they were released or lost."))
	m.losses, errs[4] = meter.Int64Counter("lockport.losses", metric.WithUnit("{lock}"), metric.WithDescription("Locks lost, by reason."))
	m.failures, errs[5] = meter.Int64Counter("lockport.renewal.failures", metric.WithUnit("{renewal}"),
		metric.WithDescription("Failed renewals. The client retries until the lock's deadline."))
	m.validity, errs[6] = meter.Float64Histogram("lockport.renewal.validity", metric.WithUnit("1"), shares,
		metric.WithDescription("Share of the TTL left when a renewal was sent."))
	return m, cmp.Or(errs...)
}

// of returns the attributes of a lock, made once. New counters start at zero, so that the first loss is an increase.
func (m *metrics) of(backend, name string) *lock {
	k := key{backend, strings.ToValidUTF8(name, "\uFFFD")} // hooks also see names that Acquire refuses
	if !m.names {
		k.name = ""
	}
	if l, ok := m.locks.Load(k); ok {
		return l.(*lock)
	}
	attributes := []attribute.KeyValue{backendKey.String(k.backend)}
	if m.names {
		attributes = append(attributes, nameKey.String(k.name))
	}
	attributes = slices.Clip(attributes)
	set := metric.WithAttributeSet(attribute.NewSet(slices.Clone(attributes)...))
	l := &lock{
		attributes: attributes,
		add:        []metric.AddOption{set},
		record:     []metric.RecordOption{set},
		start:      []trace.SpanStartOption{trace.WithAttributes(attributes...)},
	}
	l.acquired = []metric.RecordOption{l.with(outcomeKey.String("acquired"))}
	m.failures.Add(context.Background(), 0, l.add...)
	for _, reason := range lockport.LossReasons() {
		m.losses.Add(context.Background(), 0, l.with(reasonKey.String(reason)))
	}
	m.locks.Store(k, l)
	return l
}

// with returns the attributes of l and more.
func (l *lock) with(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(l.attributes, more...)...))
}

func (m *metrics) acquired(ctx context.Context, e lockport.AcquireEvent) {
	l := m.of(e.Backend, e.Name)
	m.waiting.Add(ctx, -1, l.add...)
	if e.Err != nil {
		m.acquire.Record(ctx, e.Wait.Seconds(), l.with(outcome(e)...))
		return
	}
	m.acquire.Record(ctx, e.Wait.Seconds(), l.acquired...)
	m.held.Add(ctx, 1, l.add...)
}

func (m *metrics) ended(e lockport.HoldEvent) {
	l := m.of(e.Backend, e.Name)
	m.held.Add(e.Context, -1, l.add...)
	m.hold.Record(e.Context, e.Held.Seconds(), l.record...)
}

func (m *metrics) renewed(e lockport.RenewEvent) {
	l, ctx := m.of(e.Backend, e.Name), context.Background()
	m.validity.Record(ctx, float64(e.Left)/float64(e.TTL), l.record...)
	if e.Err != nil {
		m.failures.Add(ctx, 1, l.add...)
	}
}
