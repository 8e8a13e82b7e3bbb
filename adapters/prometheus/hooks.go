package promlock

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/lockport/lockport"
)

// key identifies a lock's series: name is empty without Options.Names.
type key struct{ backend, name string }

// series has the metrics of one key, looked up once. They start at zero, so that the first loss is an increase.
type series struct {
	waiting, held            prometheus.Gauge
	acquired, hold, validity prometheus.Observer
	failures                 prometheus.Counter
	others                   prometheus.ObserverVec // acquisitions that failed, by outcome
	losses                   *prometheus.CounterVec // by reason
}

func (m *Metrics) of(backend, name string) *series {
	k := key{backend, strings.ToValidUTF8(name, "\uFFFD")} // hooks also see names that Acquire refuses
	if !m.names {
		k.name = ""
	}
	if s, ok := m.series.Load(k); ok {
		return s.(*series)
	}
	labels := prometheus.Labels{"backend": k.backend}
	if m.names {
		labels["name"] = k.name
	}
	s := &series{
		waiting: m.waiting.With(labels), held: m.held.With(labels), hold: m.hold.With(labels), validity: m.validity.With(labels),
		failures: m.failures.With(labels), others: m.acquire.MustCurryWith(labels), losses: m.losses.MustCurryWith(labels),
	}
	s.acquired = s.others.WithLabelValues("acquired")
	for _, reason := range lockport.LossReasons() {
		s.losses.WithLabelValues(reason)
	}
	m.series.Store(k, s)
	return s
}

// Hooks returns hooks for [lockport.Observe].
func (m *Metrics) Hooks() lockport.Hooks {
	return lockport.Hooks{
		AcquireStart: func(ctx context.Context, e lockport.AcquireEvent) context.Context {
			m.of(e.Backend, e.Name).waiting.Inc()
			return ctx
		},
		AcquireDone: func(_ context.Context, e lockport.AcquireEvent) {
			s := m.of(e.Backend, e.Name)
			s.waiting.Dec()
			if e.Err != nil {
				s.others.WithLabelValues(e.Outcome()).Observe(e.Wait.Seconds())
				return
			}
			s.acquired.Observe(e.Wait.Seconds())
			s.held.Inc()
		},
		Released: func(e lockport.HoldEvent) { m.of(e.Backend, e.Name).ended(e.Held) },
		Lost: func(e lockport.HoldEvent) {
			s := m.of(e.Backend, e.Name)
			s.ended(e.Held)
			s.losses.WithLabelValues(e.Reason()).Inc()
		},
		Renewed: func(e lockport.RenewEvent) {
			s := m.of(e.Backend, e.Name)
			s.validity.Observe(float64(e.Left) / float64(e.TTL))
			if e.Err != nil {
				s.failures.Inc()
			}
		},
	}
}

func (s *series) ended(held time.Duration) {
	s.held.Dec()
	s.hold.Observe(held.Seconds())
}
