package costs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// short is everything, as briefly as it makes sense.
var short = plan{
	turns: 2, cycleTime: 5 * time.Millisecond, pingTime: 5 * time.Millisecond, handOffs: 5,
	clients: []int{2, 6}, contentions: 2, contendTime: 100 * time.Millisecond,
	takeovers: 1, waiters: []int{1, 12}, waitTime: 500 * time.Millisecond,
}

// measured runs a plan on one subject, and says what became of it.
func measured(t *testing.T, o Options, p plan, s subject) report.Costs {
	t.Helper()
	lastDone, lastTotal := 0, 0
	o.Progress = func(done, total int, what string) {
		require.GreaterOrEqual(t, done, lastDone)
		require.LessOrEqual(t, done, total)
		require.NotEmpty(t, what)
		lastDone, lastTotal = done, total
	}
	r := &runner{Options: o, plan: p, subjects: []subject{s}}
	err := r.run(t.Context())
	require.NoError(t, err)
	if len(r.missing) > 0 {
		m := r.missing[0]
		servers.NeedInstalled(t, &servers.NotInstalled{Program: m.Program, Install: m.Install})
	}
	require.Len(t, r.costs, 1)
	require.Equal(t, lastTotal, lastDone)
	require.Len(t, r.seen, 1)
	return r.costs[0]
}

// our is one of the subjects on servers of our own.
func our(t *testing.T, name string) subject {
	t.Helper()
	if testing.Short() {
		t.Skip("starts servers and processes")
	}
	return ours[slices.IndexFunc(ours, func(s subject) bool { return s.Name == name })]
}

// requirePlausible checks what must be so whatever the machine.
func requirePlausible(t *testing.T, c report.Costs, p plan) {
	t.Helper()
	require.NotEmpty(t, c.Setup)
	require.NotEmpty(t, c.Question)
	require.Positive(t, c.RoundTrip.P50)
	require.Equal(t, p.turns, c.Cycle.Ratio.N)
	require.Positive(t, c.Cycle.Ratio.Low)
	require.Positive(t, c.Cycle.Acquire.Min)
	require.Positive(t, c.Cycle.Release.Min)
	require.Equal(t, c.Cycle.Acquire.N, c.Cycle.Release.N)
	require.Len(t, c.Contention, len(p.clients), "%v", c.NotRun)
	for i, contention := range c.Contention {
		require.Equal(t, p.clients[i], contention.Clients)
		require.Equal(t, min(processes, p.clients[i]), contention.Processes)
		require.Zero(t, contention.Overlaps, "two had the lock at one time")
		require.Equal(t, p.contentions, contention.PerSecond.N)
		require.Positive(t, contention.PerSecond.Low)
		require.Positive(t, contention.Ratio.Low)
	}
	require.Equal(t, p.turns*p.handOffs, c.HandOff.Time.N)
	require.Positive(t, c.HandOff.Time.Min)
	require.Positive(t, c.HandOff.Ratio.Low)
	require.Equal(t, p.takeovers*takeoverNames, c.Takeover.Time.N)
}

func TestFile(t *testing.T) {
	t.Parallel()
	c := measured(t, Options{}, short, our(t, "file"))
	requirePlausible(t, c, short)
	require.Contains(t, c.NotRun, "waiters")
	require.Len(t, c.NotRun, 1)
	require.Less(t, c.Takeover.Time.Max, c.TTL, "the system frees the locks of a process that is dead")
}

func TestRedis(t *testing.T) {
	t.Parallel()
	c := measured(t, Options{}, short, our(t, "redis"))
	requirePlausible(t, c, short)
	require.Empty(t, c.NotRun)
	require.Equal(t, "PING", c.Question)
	require.Greater(t, c.Takeover.Time.Min, c.TTL/3, "the lock was renewed about a third of its TTL ago")
	require.Len(t, c.Waiters, 2)
	for i, w := range c.Waiters {
		require.Equal(t, short.waiters[i], w.Waiters)
		require.Equal(t, min(w.Waiters, waitProcesses), w.Processes)
	}
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	c := measured(t, Options{}, short, our(t, "postgres"))
	requirePlausible(t, c, short)
	require.Empty(t, c.NotRun)
	require.Less(t, c.Takeover.Time.Max, c.TTL, "the server sees the end of a process that is dead")
	require.Len(t, c.Waiters, 2)
}

// The others are measured by the same code: what is different is how they are started.
func TestClusters(t *testing.T) {
	for _, name := range []string{"redlock", "etcd", "zookeeper", "mysql"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := measured(t, Options{Match: func(scenario, _ string) bool { return scenario == "cycle" }}, short, our(t, name))
			require.Empty(t, c.NotRun)
			require.Positive(t, c.Cycle.Ratio.Low)
		})
	}
}

// A lock that everybody gets is seen to be one.
func TestBrokenLock(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Parallel()
	broken := subject{Subject: report.Subject{Name: "everybody"}, ttl: ownTTL, start: func(context.Context) (*stage, error) {
		return &stage{"everybody:", func() error { return nil }}, nil
	}}
	var c report.Costs
	seen := func() bool {
		return len(c.Contention) == 2 && c.Contention[0].Overlaps > 0 && c.Contention[1].Overlaps > 0
	}
	for try := 0; try < 20 && !seen(); try++ { // its holds take no time: two processes must run at one time
		c = measured(t, Options{Match: func(scenario, _ string) bool { return scenario != "waiters" && scenario != "takeover" }}, short, broken)
	}
	require.Len(t, c.Contention, 2)
	for _, contention := range c.Contention {
		require.Positive(t, contention.Overlaps)
		require.Zero(t, contention.Ratio, "it has no round trip")
	}
	require.Zero(t, c.RoundTrip)
	require.Contains(t, c.NotRun["handoff"], "before it was released")
}

func TestMissingServers(t *testing.T) {
	absent := func(name string) subject {
		return subject{Subject: report.Subject{Name: name, Title: name}, start: func(context.Context) (*stage, error) {
			return nil, fmt.Errorf("in a test: %w", &servers.NotInstalled{Program: "lockd", Install: "apt-get install lockd"})
		}}
	}
	lastDone, lastTotal := 0, 0
	r := &runner{plan: short, subjects: []subject{absent("a"), absent("b")}}
	r.Progress = func(done, total int, _ string) { lastDone, lastTotal = done, total }
	r.Match = func(scenario, subject string) bool { return scenario == "cycle" }
	require.NoError(t, r.run(t.Context()))
	require.Equal(t, []report.Missing{{Subjects: []string{"a"}, Program: "lockd", Install: "apt-get install lockd"}, {Subjects: []string{"b"}, Program: "lockd", Install: "apt-get install lockd"}}, r.missing)
	require.Empty(t, r.costs)
	require.Equal(t, []int{1, 2}, []int{lastDone, lastTotal}, "the last word is when the second begins")
}

func TestServersThatDoNotStart(t *testing.T) {
	r := &runner{plan: short, subjects: []subject{{Subject: report.Subject{Title: "Lockd"}, start: func(context.Context) (*stage, error) {
		return nil, errors.New("no room")
	}}}}
	require.EqualError(t, r.run(t.Context()), "the servers of Lockd: no room")
}

func TestMatchChoosesSubjects(t *testing.T) {
	r := &runner{subjects: ours}
	r.Match = func(scenario, subject string) bool { return subject == "etcd" && scenario == "handoff" }
	for _, s := range ours {
		require.Len(t, r.chosen(s), strings.Count(s.Name, "etcd"))
	}
}
