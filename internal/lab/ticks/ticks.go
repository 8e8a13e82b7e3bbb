// Package ticks tests schedulers: two processes of the test binary run one schedule with differing clocks, and one of them is killed in a job.
package ticks

import (
	"context"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/worker"
)

// The clocks of the machines are one unit apart. The schedule tolerates another unit of delay in each.
const (
	unit     = 750 * time.Millisecond
	interval = 4 * unit
	ttl      = 3 * unit
	// MinHold is how long a run holds the lock at least.
	MinHold = 2 * unit
	// Spec is the schedule in cron syntax with seconds: every interval.
	Spec = "*/3 * * * * *"
)

// Machine is the configuration of one process.
type Machine struct {
	URL   string        // of the lock server
	Job   string        // the name of the job
	Ahead time.Duration // how far its clock is ahead
}

// event is a line that a machine prints.
type event struct {
	Machine int   `json:"-"`
	Tick    int64 // the tick of a run that has begun
	Ended   bool  // the run has ended
}

// run is the job.
func (m Machine) run() {
	e := event{Tick: time.Now().Add(m.Ahead).UnixNano() / int64(interval)}
	out := json.NewEncoder(os.Stdout)
	_ = out.Encode(e)
	time.Sleep(interval / 8)
	e.Ended = true
	_ = out.Encode(e)
}

// machines are the worker processes. Their only order has no content and means: start.
var machines = worker.Kind[Machine, struct{}, struct{}]{Variable: "LOCKPORT_TICKS"}

// Main must be the first call in TestMain: see [worker.Kind.Main]. schedule runs job by the machine's schedule until ctx ends.
func Main(schedule func(ctx context.Context, m Machine, client *lockport.Client, job func()) error) {
	machines.Main(func(ctx context.Context, m Machine) (func(struct{}) (struct{}, error), func(), error) {
		client, err := lockport.Open(ctx, m.URL, lockport.TTL(ttl))
		run := func(struct{}) (struct{}, error) { return struct{}{}, schedule(ctx, m, client, m.run) }
		return run, func() { _ = client.Close() }, err
	})
}

// Run runs two machines for 12 ticks. It kills the one whose clock is ahead, with SIGKILL, when that begins the job, and restarts it three ticks later.
// Each tick must begin the job exactly once, on either machine. A run that the kill cuts off counts; no other run may be cut off.
func Run(t testing.TB, url, job string) {
	t.Helper()
	const n = 12
	events := make(chan event, 1000)
	start := func(i int) *worker.Handle[struct{}, struct{}] {
		kind := machines
		kind.Line = func(line []byte) {
			e := event{Machine: i}
			if json.Unmarshal(line, &e) == nil {
				events <- e
			}
		}
		h, err := kind.Start(t.Context(), Machine{url, job, time.Duration(1-i) * unit}) // machine 0 is ahead
		require.NoError(t, err)
		outcome := h.Send(struct{}{})
		t.Cleanup(func() {
			h.Kill()
			if _, err := outcome(context.Background()); t.Failed() {
				t.Logf("machine %d: %v", i, err)
			}
		})
		return h
	}
	begun, ended := make(map[int64]int), make(map[int64]int)
	timeout := time.After(time.Duration(n+20) * interval)
	until := func(is func(e event) bool) (tick int64) { // counts the events until one is
		for {
			var e event
			select {
			case e = <-events:
			case <-timeout:
				t.Fatalf("%d ticks took too long; begun: %v", n, begun)
			}
			if e.Ended {
				ended[e.Tick]++
			} else {
				begun[e.Tick]++
			}
			if is(e) {
				return e.Tick
			}
		}
	}
	ahead := start(0)
	first := until(func(e event) bool { return e.Tick > 0 }) + 1
	start(1)
	killed := until(func(e event) bool { return e.Machine == 0 && !e.Ended && e.Tick >= first+5 })
	ahead.Kill()
	until(func(e event) bool { return e.Tick >= killed+3 })
	start(0)
	until(func(e event) bool { return e.Tick >= first+n })
	cut := 0
	for tick := first; tick < first+n; tick++ {
		require.Equal(t, 1, begun[tick], "a tick did not begin the job exactly once: %v", begun)
		cut += 1 - ended[tick]
	}
	require.LessOrEqual(t, cut, 1, "runs are cut off: begun %v, ended %v", begun, ended)
}
