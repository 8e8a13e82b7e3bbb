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
	code, stdout, stderr := output(t, url, "conform", "--short", "--run", "^(contract|exclusion)/", "--json", file)
	require.Equal(t, 0, code, stdout)
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

	code, stdout, stderr = output(t, url, "conform", "--run", "^contract/release$", "--json=-")
	require.Equal(t, 0, code, stderr)
	require.NoError(t, json.Unmarshal([]byte(stdout), &report))
	require.Contains(t, stderr, "contract/release (")
}

func TestConformUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		code int
		line string
	}{
		{[]string{"conform", "file:"}, 64, "the server is named by --url"},
		{[]string{"conform", "--run", "("}, 64, "option --run: error parsing regexp"},
		{[]string{"conform", "--run", "^nothing$"}, 64, "no case matches"},
		{[]string{"conform", "--soak", "1ms"}, 64, "too short"},
		{[]string{"conform", "--soak", "1s", "--short"}, 64, "--soak runs no cases"},
		{[]string{"conform", "--soak", "1s", "--processes", "0"}, 64, "bad number"},
		{[]string{"conform", "--goroutines", "9"}, 64, "give --soak"},
		{[]string{"conform", "--url", "nosuch:"}, 64, "unknown scheme"},
		{[]string{"conform", "--url", "file:///no/such/folder"}, 69, "there is no lock folder"},
	} {
		refuses(t, folder(t), tt.code, tt.line, tt.args...)
	}
	code, _, stderr := output(t, folder(t), "conform", "--run", "^contract/release$", "--json", "/no/such/folder/report")
	require.Equal(t, 1, code)
	require.Regexp(t, `^lockport: [^\n]*the report cannot be written[^\n]*\n$`, stderr)
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
	report, total := runSuite(t.Context(), &out, cfg, conformOptions{match: regexp.MustCompile("^contract/release$")})
	require.Equal(t, 1, total)
	require.False(t, report.OK())
	require.Regexp(t, `^\[1/1\] fail    contract/release \(\S+\)\n    \S.*\n    seen: \S.*\n$`, out.String())
	summarize(&out, report, false)
	require.Contains(t, out.String(), "0 passed, 1 failed, 0 not run")
}
