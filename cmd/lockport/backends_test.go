package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
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
	var b strings.Builder
	require.NoError(t, writeMarkdown(&b, rows))
	require.Equal(t, strings.Join([]string{
		"|URL schemes|released on silence by|TTL|tokens rise|order|waiting|on fail-over|removal noticed (TTL 15s)|also|",
		"|---|---|---|---|---|---|---|---|---|",
		"|a, c|TTL|from 2s, multiples of 1s|while data survives|FIFO|notification|survives|5s|nothing|",
		"|b|never|any|none|none|poll|can be lost|at the deadline|nothing|",
		"|d|never|the session's|none|none|poll|can be lost|at the deadline|nothing|",
		"|e|never|multiples of 1s|none|none|poll|can be lost|at the deadline|nothing|",
		"",
	}, "\n"), b.String())
}

// TestTablesInDocs keeps the table of promises in README.md and docs equal to what the backends state. It stands between two lines:
// <!-- lockport backends --markdown --> and <!-- /lockport backends --markdown -->.
func TestTablesInDocs(t *testing.T) {
	const begin, end = "<!-- lockport backends --markdown -->\n", "<!-- /lockport backends --markdown -->"
	var table strings.Builder
	require.NoError(t, writeMarkdown(&table, capabilityTable(lockport.DefaultMux().Schemes())))
	root := filepath.Join("..", "..")
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	require.NoError(t, err)
	for _, file := range append(files, filepath.Join(root, "README.md")) {
		text, err := os.ReadFile(file)
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		_, rest, found := strings.Cut(string(text), begin)
		if !found {
			require.NotEqual(t, "README.md", filepath.Base(file), "its table is missing: %s", begin)
			continue
		}
		got, _, found := strings.Cut(rest, end)
		require.True(t, found, "%s: %s is missing", file, end)
		require.Equal(t, table.String(), got, "%s: insert the output of: go run ./cmd/lockport backends --markdown", file)
	}
}
