//go:build linux || darwin

package main

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/conformance/exhibits"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestConform(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.json")
	url := folder(t)
	stdout, stderr := ran(t, 0, url, "conform", "--short", "--run", "^(contract|exclusion)/", "--json", file)
	require.Empty(t, stderr)
	require.Contains(t, stdout, "] pass    exclusion/two-backends (")
	require.Contains(t, stdout, "] not run contract/renewal: ")
	require.NotContains(t, stdout, "names/")
	require.Regexp(t, `\nfile: \d+ passed, 0 failed, \d+ not run, in `, stdout)

	var report conformance.Report
	require.NoError(t, json.Unmarshal(peer.Must(os.ReadFile(file))(t), &report))
	require.Equal(t, []any{"file", strings.Count(stdout, "] pass ")}, []any{report.Backend, report.Passed})
	require.Len(t, report.Results, report.Passed+report.NotRun)

	stdout, stderr = ran(t, 0, url, "conform", "--run", "^exclusion/two-backends$", "--json=-")
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.Contains(t, stderr, "exclusion/two-backends (")
}

func TestConformList(t *testing.T) {
	t.Parallel()
	stdout, _ := ran(t, 0, folder(t), "conform", "--list")
	require.Equal(t, len(conformance.Cases()), strings.Count(stdout, "\n    ")-strings.Count(stdout, "\n    needs "))
	stdout, _ = ran(t, 0, folder(t), "conform", "--list", "--run", "^silence/frozen$")
	require.Regexp(t, `^silence/frozen\n    P3a silence: .*\n    needs Freeze, Direct\n$`, stdout)
}

func TestConformPrintsTheRuleThatWasBroken(t *testing.T) {
	t.Parallel()
	broken := exhibits.All()
	broken = broken[slices.IndexFunc(broken, func(e exhibits.Exhibit) bool { return e.Name == "releases-nothing" }):]
	var out strings.Builder
	report := runSuite(t.Context(), bufio.NewWriter(&out), broken[0].Config(), conformOptions{match: regexp.MustCompile("^exclusion/two-backends$")})
	require.False(t, report.OK())
	require.Regexp(t, `^\[1/1\] fail    exclusion/two-backends \(\S+\)\n    \S.*\n    seen: \S.*\n\n\S+: 0 passed, 1 failed, 0 not run, .*\n$`, out.String())
}

func TestConformSoak(t *testing.T) {
	t.Parallel()
	stdout, stderr := ran(t, 0, folder(t), "conform", "--soak", "1s", "--processes", "2", "--goroutines", "8", "--json=-")
	var report conformance.SoakReport
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.Equal(t, []any{"file", 2, 8}, []any{report.Backend, report.Processes, report.Goroutines})
	require.Positive(t, report.Acquired)
	require.Positive(t, report.PassedOn)
	require.Contains(t, stderr, "0 violations")
}

// The suite runs through proxies if possible. Faults of one request need a single server.
func TestConformTarget(t *testing.T) {
	t.Parallel()
	for raw, servers := range map[string]int{
		"redis://u:pw@a:1/1?prefix=x": 1, "zookeeper://a:1,b:2/chroot?ttl=2s": 2, "etcds://h:1": 0,
	} {
		cfg, closeProxies, err := proxiedConfig(raw)
		require.NoError(t, err)
		closeProxies()
		if servers == 0 {
			require.Empty(t, cfg.Direct, raw)
			continue
		}
		require.Equal(t, raw, cfg.Direct)
		require.NotEqual(t, raw, cfg.Target)
		require.NotNil(t, cfg.Faults.Sever)
		require.Equal(t, servers == 1, cfg.Faults.DropReply != nil && cfg.Faults.CutAfter != nil)
	}
	// Only this process can reach its memory. Schemes ignore case.
	for raw, local := range map[string]bool{"memory:": true, "MEMORY:x": true, "redis://h": false} {
		require.Equal(t, local, suiteConfig(raw).Local, raw)
	}
	// A session's TTL is short, unless the URL asks for another.
	require.Equal(t, "zookeeper://h:1?ttl=4s", suiteConfig("zookeeper://h:1").Target)
	require.Equal(t, "zookeeper://h:1?ttl=30s", suiteConfig("zookeeper://h:1?ttl=30s").Target)
}
