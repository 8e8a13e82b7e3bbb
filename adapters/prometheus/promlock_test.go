package promlock_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	promlock "github.com/lockport/lockport/adapters/prometheus"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/internal/lab/peer"
)

// register returns new metrics and their registry.
func register(t testing.TB, o promlock.Options) (*promlock.Metrics, *prometheus.Registry) {
	m, r := promlock.New(o), prometheus.NewPedanticRegistry()
	require.NoError(t, r.Register(m))
	return m, r
}

// values returns the metrics of r as `name{label="value"}`; for a histogram, its count with "_count" and its sum with "_sum". Labels are sorted.
func values(t testing.TB, r *prometheus.Registry) map[string]float64 {
	all := make(map[string]float64)
	for _, f := range peer.Must(r.Gather())(t) {
		for _, m := range f.GetMetric() {
			labels := ""
			for i, l := range m.GetLabel() {
				labels += fmt.Sprintf("%s%s=%q", map[bool]string{true: ","}[i > 0], l.GetName(), l.GetValue())
			}
			switch f.GetType() {
			case dto.MetricType_HISTOGRAM:
				all[f.GetName()+"_count{"+labels+"}"] = float64(m.GetHistogram().GetSampleCount())
				all[f.GetName()+"_sum{"+labels+"}"] = m.GetHistogram().GetSampleSum()
			default:
				all[f.GetName()+"{"+labels+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return all
}

// use calls hooks for locks acquired, refused, renewed, released and lost, for one still held, and for one waiter.
func use(ctx context.Context, hooks lockport.Hooks) {
	begin := func(e lockport.AcquireEvent) {
		e.Backend, e.Name = "memory", "job\xff" // Acquire refuses it, but hooks see it
		hooks.AcquireDone(hooks.AcquireStart(ctx, lockport.AcquireEvent{Backend: e.Backend, Name: e.Name}), e)
	}
	begin(lockport.AcquireEvent{})
	begin(lockport.AcquireEvent{Wait: 3 * time.Second})
	begin(lockport.AcquireEvent{})
	begin(lockport.AcquireEvent{Err: lockport.ErrHeld})
	begin(lockport.AcquireEvent{Wait: 2 * time.Second, Err: context.DeadlineExceeded})
	hooks.AcquireStart(ctx, lockport.AcquireEvent{Backend: "memory", Name: "job\xff"})
	hooks.Renewed(lockport.RenewEvent{Backend: "memory", Name: "job\xff", TTL: 8 * time.Second, Left: 5 * time.Second})
	hooks.Renewed(lockport.RenewEvent{Backend: "memory", Name: "job\xff", TTL: 8 * time.Second, Left: time.Second, Err: lockport.ErrUnavailable})
	hooks.Released(lockport.HoldEvent{Context: ctx, Backend: "memory", Name: "job\xff", Held: 5 * time.Second})
	hooks.Lost(lockport.HoldEvent{Context: ctx, Backend: "memory", Name: "job\xff", Held: time.Second, Err: lockport.ErrLost})
}

func TestMetrics(t *testing.T) {
	const lock, name = `{backend="memory"}`, `,name="job�"`
	want := map[string]float64{
		"lockport_waiting" + lock: 1,
		"lockport_held" + lock:    1,
		`lockport_acquire_duration_seconds_count{backend="memory",outcome="acquired"}`: 3,
		`lockport_acquire_duration_seconds_sum{backend="memory",outcome="acquired"}`:   3,
		`lockport_acquire_duration_seconds_count{backend="memory",outcome="held"}`:     1,
		`lockport_acquire_duration_seconds_sum{backend="memory",outcome="held"}`:       0,
		`lockport_acquire_duration_seconds_count{backend="memory",outcome="timeout"}`:  1,
		`lockport_acquire_duration_seconds_sum{backend="memory",outcome="timeout"}`:    2,
		"lockport_hold_duration_seconds_count" + lock:                                  2,
		"lockport_hold_duration_seconds_sum" + lock:                                    5 + 1,
		`lockport_losses_total{backend="memory",reason="removed"}`:                     1,
		`lockport_losses_total{backend="memory",reason="silence"}`:                     0,
		`lockport_losses_total{backend="memory",reason="max_hold"}`:                    0,
		`lockport_losses_total{backend="memory",reason="outer_released"}`:              0,
		"lockport_renewal_failures_total" + lock:                                       1,
		"lockport_renewal_validity_ratio_count" + lock:                                 2,
		"lockport_renewal_validity_ratio_sum" + lock:                                   0.75,
	}
	for _, names := range []bool{false, true} {
		m, r := register(t, promlock.Options{Names: names})
		use(t.Context(), m.Hooks())
		got := make(map[string]float64)
		for series, value := range values(t, r) {
			require.Equal(t, names, strings.Contains(series, name), series)
			got[strings.Replace(series, name, "", 1)] = value
		}
		require.Equal(t, want, got)
		require.Empty(t, peer.Must(testutil.GatherAndLint(r))(t))
		require.Error(t, r.Register(m), "twice")
	}
}

func TestHooksAllocateNothing(t *testing.T) {
	hooks, names := promlock.New(promlock.Options{}).Hooks(), strings.Repeat("x", 200)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		names = names[1:] // another name each time
		e := lockport.AcquireEvent{Backend: "memory", Name: names}
		hooks.AcquireDone(hooks.AcquireStart(t.Context(), e), e)
		hooks.Released(lockport.HoldEvent{Backend: "memory", Name: names})
	}))
}

// A silent server shows in the metrics before the lock is lost, and then as a loss.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, r := register(t, promlock.Options{Names: true})
		faults := new(memorytest.Faults)
		c := peer.Client(t, memorytest.NewBackend(nil, faults), lockport.TTL(12*time.Second), lockport.Observe(m.Hooks()))
		lock := peer.Holds(t, c, "job")
		faults.Fail(lockport.ErrUnavailable)
		<-lock.Lost()
		synctest.Wait()
		got := values(t, r)
		require.EqualValues(t, 1, got[`lockport_losses_total{backend="memory",name="job",reason="silence"}`])
		require.Positive(t, got[`lockport_renewal_failures_total{backend="memory",name="job"}`])
		page := httptest.NewRecorder()
		promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(page, httptest.NewRequest("GET", "/metrics", nil))
		require.Regexp(t, `ratio_bucket\{backend="memory",name="job",le="0.3"\} [1-9]`, page.Body.String(), "below the threshold in alerts.yml")
		faults.Restore() // for the client's end
	})
}
