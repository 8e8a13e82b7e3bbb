package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/pages"
)

func TestBackends(t *testing.T) {
	t.Parallel()
	code, stdout, _ := inside(t, "backends")
	require.Equal(t, 0, code)
	for _, s := range lockport.DefaultMux().Schemes() {
		require.Contains(t, stdout, s.Example)
		for _, p := range s.Params {
			require.Regexp(t, `(?m)^ +`+regexp.QuoteMeta(p.Name)+` +`+regexp.QuoteMeta(p.Text)+`$`, stdout)
		}
	}
	require.NotContains(t, stdout, "\t")
}

func TestCapabilityTable(t *testing.T) {
	caps := driver.Capabilities{
		Ends: driver.EndsTTL, MinTTL: 2 * time.Second, TTLGrain: time.Second, Token: driver.TokenData, Fair: driver.FairFIFO,
		Wake: driver.WakeNotify, Failover: driver.FailoverSafe,
		RemovalNotice: func(ttl time.Duration) time.Duration { return ttl / 3 },
	}
	rows := capabilityTable([]lockport.Scheme{
		{Name: "a", Capabilities: caps}, {Name: "b"}, {Name: "c", Capabilities: caps},
		{Name: "d", Capabilities: driver.Capabilities{FixedTTL: time.Second}},
		{Name: "e", Capabilities: driver.Capabilities{MinTTL: time.Second, TTLGrain: time.Second}},
	})
	require.Equal(t, strings.Join([]string{
		"|URL schemes|released on silence by|TTL|tokens rise|order|waiting|on fail-over|removal noticed (TTL 15s)|also|",
		"|---|---|---|---|---|---|---|---|---|",
		"|a, c|TTL|from 2s, multiples of 1s|while data survives|FIFO|notification|survives|5s|nothing|",
		"|b|never|any|none|none|poll|can be lost|at the deadline|nothing|",
		"|d|never|the session's|none|none|poll|can be lost|at the deadline|nothing|",
		"|e|never|multiples of 1s|none|none|poll|can be lost|at the deadline|nothing|",
		"",
	}, "\n"), markdown(rows))
}

// markdown renders the table of promises.
func markdown(rows [][]string) (text string) {
	for _, row := range append([][]string{capabilityColumns, slices.Repeat([]string{"---"}, len(capabilityColumns))}, rows...) {
		text += "|" + strings.Join(row, "|") + "|\n"
	}
	return text
}

// The table of promises in README.md shows what the backends state.
func TestTableInReadme(t *testing.T) {
	pages.Holds(t, "../README.md", "capabilities", markdown(capabilityTable(lockport.DefaultMux().Schemes())))
}
