package compare

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

// measured measures the given scenarios of a subject, or all.
func measured(t *testing.T, s subject, only ...string) report.Costs {
	t.Helper()
	if testing.Short() {
		t.Skip("starts servers and processes")
	}
	lastDone, lastTotal := 0, 0
	o := &Options{Scenarios: only, Progress: func(part string, done, total int, what string) {
		require.GreaterOrEqual(t, done, lastDone)
		require.LessOrEqual(t, done, total)
		require.NotEmpty(t, part+what)
		lastDone, lastTotal = done, total
	}}
	seen, missing, err := o.costs(t.Context(), []subject{s})
	require.NoError(t, err)
	for _, m := range missing {
		servers.NeedInstalled(t, &servers.NotInstalled{Program: m.Program, Install: m.Install})
	}
	require.Len(t, seen, 1)
	require.Equal(t, lastTotal, lastDone)
	return seen[0]
}

// requirePlausible checks what must hold on every machine.
func requirePlausible(t *testing.T, c report.Costs) {
	t.Helper()
	require.Empty(t, c.NotRun)
	require.NotEmpty(t, c.Setup)
	require.Positive(t, c.Acquire.Min)
	require.Positive(t, c.Release.Min)
	require.Positive(t, c.HandOff.Min)
	want := []int{c.Acquire.N, scenarios[1].Turns * scenarios[1].Samples, scenarios[2].N}
	require.Equal(t, want, []int{c.Release.N, c.HandOff.N, c.Takeover.N}, "releases, hand-offs, takeovers")
}

// Everything is measured where a server notices a process's death, and where it does not. For the others, which share the code, a cycle is enough.
func TestCosts(t *testing.T) {
	for _, s := range ownSubjects {
		if s.start == nil {
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			if !slices.Contains([]string{"file", "postgres", "redis"}, s.Name) {
				c := measured(t, s, "cycle")
				require.Empty(t, c.NotRun)
				require.Positive(t, c.Acquire.Min)
				require.Zero(t, c.HandOff)
				return
			}
			c := measured(t, s)
			requirePlausible(t, c)
			require.Positive(t, c.Takeover.Min)
			if s.Name != "redis" {
				require.Less(t, c.Takeover.Max, c.TTL, "the server notices the end of a process")
			}
		})
	}
}

// A failed scenario is reported, and the others go on.
func TestBrokenLock(t *testing.T) {
	t.Parallel()
	broken := subject{Subject: report.Subject{Name: "memory"}, ttl: ownTTL, start: func(context.Context) (*measure.Servers, error) {
		return &measure.Servers{URL: "memory:", Close: func() error { return nil }}, nil // each process has its own locks
	}}
	c := measured(t, broken, "cycle", "handoff")
	require.Positive(t, c.Acquire.N)
	require.Contains(t, c.NotRun["handoff"], "before the release")
}

// A server that does not start ends the run. One that is not installed does not: see TestCompareWithoutAServer of the command.
func TestServersThatDoNotStart(t *testing.T) {
	broken := subject{Subject: report.Subject{Title: "Lockd"}, start: func(context.Context) (*measure.Servers, error) { return nil, errors.New("no room") }}
	_, _, err := (&Options{Scenarios: []string{"cycle"}}).costs(t.Context(), []subject{broken})
	require.EqualError(t, err, "the servers of Lockd: no room")
}
