// Package promlock exports metrics of lockport's locks to Prometheus.
//
// Register the [Metrics] of [New], and pass its Hooks to each Client. dashboard.json, beside this file, shows them in Grafana; alerts.yml has alert
// rules.
package promlock

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Options are the options of New. The zero value is right for most programs.
type Options struct {
	// Names gives every metric the label "name", the lock's name. Each name costs about 60 series until the process ends: set it only for a small,
	// fixed set of names. Default: no such label.
	Names bool
}

// Metrics is a [prometheus.Collector] fed by its Hooks. Every metric has the label "backend". Several Clients can share one. Safe for concurrent use.
type Metrics struct {
	names bool
	all   *prometheus.Registry

	waiting  *prometheus.GaugeVec
	held     *prometheus.GaugeVec
	acquire  *prometheus.HistogramVec
	hold     *prometheus.HistogramVec
	losses   *prometheus.CounterVec
	failures *prometheus.CounterVec
	validity *prometheus.HistogramVec

	series sync.Map // of key to *series
}

// seconds are duration buckets, from a hand-off inside the process to a one-hour job.
var seconds = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600}

// shares are buckets of the remaining validity, usually about 0.6.
var shares = []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}

// New returns new Metrics. Register them, or nothing exports them.
func New(o Options) *Metrics {
	labels := func(more ...string) []string {
		if o.Names {
			more = append(more, "name")
		}
		return append([]string{"backend"}, more...)
	}
	all := prometheus.NewRegistry()
	vectors := promauto.With(all)
	gauge := func(name, help string) *prometheus.GaugeVec {
		return vectors.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels())
	}
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		return vectors.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels(more...))
	}
	histogram := func(name, help string, buckets []float64, more ...string) *prometheus.HistogramVec {
		return vectors.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels(more...))
	}
	return &Metrics{
		names:    o.Names,
		all:      all,
		waiting:  gauge("lockport_waiting", "Acquire, TryAcquire and Attach calls that have not returned."),
		held:     gauge("lockport_held", "Locks held."),
		acquire:  histogram("lockport_acquire_duration_seconds", "How long Acquire, TryAcquire and Attach took, by outcome.", seconds, "outcome"),
		hold:     histogram("lockport_hold_duration_seconds", "How long locks were held, until they were released or lost.", seconds),
		losses:   counter("lockport_losses_total", "Locks lost, by reason.", "reason"),
		failures: counter("lockport_renewal_failures_total", "Failed renewals. The client retries until the lock's deadline."),
		validity: histogram("lockport_renewal_validity_ratio", "Share of the TTL left when a renewal was sent.", shares),
	}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { m.all.Describe(to) }

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) { m.all.Collect(to) }
