package report

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// sample is a report with every class, variants, cells that were not run, a missing server and all costs. Its figures are made up.
func sample(t testing.TB) *Report {
	t.Helper()
	return read(t, "testdata/sample.json")
}

// realRun is the report of a whole run on real servers that the documentation shows.
func realRun(t testing.TB) *Report {
	t.Helper()
	return read(t, "../../../docs/sample/report.json")
}

func read(t testing.TB, name string) *Report {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	r, err := Read(f)
	require.NoError(t, err)
	return r
}

// quantiles are all that were measured of a subject.
func (c *Costs) quantiles() (all []*Quantiles) {
	if c.RoundTrip != nil {
		all = append(all, c.RoundTrip)
	}
	if c.Cycle != nil {
		all = append(all, &c.Cycle.Acquire, &c.Cycle.Release)
	}
	if c.HandOff != nil {
		all = append(all, &c.HandOff.Time)
	}
	if c.Takeover != nil {
		all = append(all, &c.Takeover.Time)
	}
	if c.Failover != nil {
		all = append(all, &c.Failover.Time)
	}
	for i := range c.Contention {
		all = append(all, &c.Contention[i].Wait)
	}
	return all
}
