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
