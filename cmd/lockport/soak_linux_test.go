package main

import (
	"encoding/json"
	"flag"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
)

var (
	soakFor        = flag.Duration("soak", 0, "how long TestSoak soaks each backend (make soak-crowd)")
	soakProcesses  = flag.Int("processes", 4, "how many processes a soak has")
	soakGoroutines = flag.Int("goroutines", 512, "how many goroutines each of them has")
)

// TestSoak has crowds of this binary's processes, and so under the race detector if the test is, race on every backend, one after the other. The suite of each
// backend has the short form, exclusion/crowd.
func TestSoak(t *testing.T) {
	if *soakFor == 0 {
		t.Skip("not run: takes long; make soak-crowd FOR=1m runs it")
	}
	all := maps.Clone(realServers)
	all["memory"] = func(t *testing.T) string { return "memory:" + t.Name() }
	all["file"] = folder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.Run(name, func(t *testing.T) {
			report := conformance.Soak(t.Context(), suiteConfig(all[name](t)), conformance.SoakOptions{
				For: *soakFor, Processes: *soakProcesses, Goroutines: *soakGoroutines, KillEvery: min(20*time.Second, *soakFor/3),
			})
			require.True(t, report.OK(), "%v", report)
			t.Log(report)
		})
	}
}

func TestConformSoak(t *testing.T) {
	t.Parallel()
	stdout, stderr := ran(t, 0, folder(t), "conform", "--soak", "1s", "--processes", "2", "--goroutines", "8", "--json=-")
	var report conformance.SoakReport
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.Equal(t, "file", report.Backend)
	require.Equal(t, 2, report.Processes)
	require.Equal(t, 8, report.Goroutines)
	require.Positive(t, report.Acquired)
	require.Positive(t, report.PassedOn)
	require.Contains(t, stderr, "0 violations")
}
