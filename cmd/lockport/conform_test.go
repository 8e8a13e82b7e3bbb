package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

func TestConform(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "report.json")
	url := folder(t)
	stdout, stderr := ran(t, 0, url, "conform", "--short", "--run", "^(contract|exclusion)/", "--json", file)
	require.Empty(t, stderr)
	require.Contains(t, stdout, "] pass    contract/release (")
	require.Contains(t, stdout, "] not run contract/renewal: ")
	require.NotContains(t, stdout, "names/")
	require.Regexp(t, `\nfile: \d+ passed, 0 failed, \d+ not run, in `, stdout)

	text, err := os.ReadFile(file)
	require.NoError(t, err)
	var report conformance.Report
	require.NoError(t, json.Unmarshal(text, &report))
	require.Equal(t, "file", report.Backend)
	require.Equal(t, strings.Count(stdout, "] pass "), report.Passed)
	require.Len(t, report.Results, report.Passed+report.NotRun)

	stdout, stderr = ran(t, 0, url, "conform", "--run", "^contract/release$", "--json=-")
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.Contains(t, stderr, "contract/release (")

	_, stderr = ran(t, 1, url, "conform", "--run", "^contract/release$", "--json", "/no/such/folder/report")
	require.Regexp(t, `^lockport: [^\n]*the report cannot be written[^\n]*\n$`, stderr)
}

func TestConformList(t *testing.T) {
	t.Parallel()
	stdout, _ := ran(t, 0, folder(t), "conform", "--list")
	require.Equal(t, len(conformance.Cases()), strings.Count(stdout, "\n    ")-strings.Count(stdout, "\n    needs "))
	stdout, _ = ran(t, 0, folder(t), "conform", "--list", "--run", "^silence/frozen$")
	require.Regexp(t, `^silence/frozen\n    P3a silence: .*\n    needs Freeze, Direct\n$`, stdout)
}

// forgetful grants and never releases.
type forgetful struct{ driver.Backend }

type neverReleased struct{ driver.Lease }

func (f forgetful) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	l, err := f.Backend.TryAcquire(ctx, req)
	if err != nil {
		return nil, err
	}
	return neverReleased{l}, nil
}

func (neverReleased) Release(context.Context) error { return nil }

func TestConformPrintsTheRuleThatWasBroken(t *testing.T) {
	t.Parallel()
	cfg := conformance.Config{Open: func(ctx context.Context, target string) (driver.Backend, error) {
		b, err := openTarget(ctx, "memory:"+t.Name())
		return forgetful{b}, err
	}, Local: true}
	var out strings.Builder
	report := runSuite(t.Context(), &out, cfg, conformOptions{match: regexp.MustCompile("^contract/release$")})
	require.False(t, report.OK())
	require.Regexp(t, `^\[1/1\] fail    contract/release \(\S+\)\n    \S.*\n    seen: \S.*\n$`, out.String())
	summarize(&out, report)
	require.Contains(t, out.String(), "0 passed, 1 failed, 0 not run")
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

// The suite runs through proxies if possible. Faults of one request need a single server.
func TestConformTarget(t *testing.T) {
	t.Parallel()
	for raw, servers := range map[string]int{
		"redis://u:pw@a:1/1?prefix=x": 1, "redlock://u:pw@a:1,b:2/1?prefix=x": 2, "etcd://a:1,b:2": 2, "zookeeper://a:1,b:2/chroot?ttl=2s": 2,
		"redlocks://h:1": 0, "etcds://h:1": 0, "file:///tmp": 0, "redis+sentinel://h:1": 0,
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
}

// A session's TTL is short, unless the URL asks for another.
func TestConformTargetOfASession(t *testing.T) {
	t.Parallel()
	require.Equal(t, "zookeeper://h:1?ttl=4s", withSessionTTL("zookeeper://h:1"))
	require.Equal(t, "zookeeper://h:1?ttl=30s", withSessionTTL("zookeeper://h:1?ttl=30s"))
	require.Equal(t, "redis://h:1", withSessionTTL("redis://h:1"))
}
