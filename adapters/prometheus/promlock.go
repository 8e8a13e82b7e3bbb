// Package promlock counts and times the locks of lockport for Prometheus.
//
// Register the [Metrics] that [New] makes, and give its Hooks to each Client. dashboard.json and alerts.yml, beside this file, show them in Grafana and
// warn of trouble.
package promlock

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Options are the options of New. The zero value is right for most programs.
type Options struct {
	// Names gives every metric the label "name", the lock's name. Each name costs about 60 series, which stay until the process ends: set it only where a
	// program has few names, and always the same. Default: no such label.
	Names bool
}

// Metrics is a [prometheus.Collector] of what its Hooks are told. Every metric has the label "backend". Several Clients can share one. Safe for concurrent use.
type Metrics struct {
	names bool

	waiting  *prometheus.GaugeVec
	held     *prometheus.GaugeVec
	acquire  *prometheus.HistogramVec
	hold     *prometheus.HistogramVec
	losses   *prometheus.CounterVec
	failures *prometheus.CounterVec
	validity *prometheus.HistogramVec

	series sync.Map // of key to *series
}

// seconds are the buckets of durations: from a hand-off inside the process to a job of an hour.
var seconds = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600}

// shares are the buckets of the validity that is left, which is about 0.6 if all is well.
var shares = []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7}

// New makes Metrics. Register them, or they are seen nowhere.
func New(o Options) *Metrics {
	labels := func(more ...string) []string {
		if o.Names {
			more = append(more, "name")
		}
		return append([]string{"backend"}, more...)
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels())
	}
	counter := func(name, help string, more ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels(more...))
	}
	histogram := func(name, help string, buckets []float64, more ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels(more...))
	}
	return &Metrics{
		names:    o.Names,
		waiting:  gauge("lockport_waiting", "Calls of Acquire and TryAcquire that have not returned."),
		held:     gauge("lockport_held", "Locks that are held."),
		acquire:  histogram("lockport_acquire_duration_seconds", "How long Acquire and TryAcquire took, by outcome.", seconds, "outcome"),
		hold:     histogram("lockport_hold_duration_seconds", "How long locks were held, until they were released or lost.", seconds),
		losses:   counter("lockport_losses_total", "Locks that were lost, by reason.", "reason"),
		failures: counter("lockport_renewal_failures_total", "Renewals that failed; they are tried again until the lock's deadline."),
		validity: histogram("lockport_renewal_validity_ratio", "Share of the TTL for which a lock was still valid when its renewal was sent.", shares),
	}
}

// vectors are what Metrics consists of.
func (m *Metrics) vectors() []prometheus.Collector {
	return []prometheus.Collector{m.waiting, m.held, m.acquire, m.hold, m.losses, m.failures, m.validity}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, v := range m.vectors() {
		v.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, v := range m.vectors() {
		v.Collect(to)
	}
}
