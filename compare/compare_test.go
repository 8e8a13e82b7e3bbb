package compare

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/require"

	_ "github.com/lockport/lockport/backend/all" // workers open them
	"github.com/lockport/lockport/internal/lab/report"
)

func TestMain(m *testing.M) {
	logging.Disable()
	WorkerMain()
	m.Run()
}

// Options select by part, hazard, measurement and backend.
func TestMatch(t *testing.T) {
	for _, c := range []struct {
		o           Options
		h3, h4, cyc bool
	}{
		{Options{}, true, true, true},
		{Options{Scenarios: []string{"hazards"}}, true, true, false},
		{Options{Scenarios: []string{"costs"}}, false, false, true},
		{Options{Scenarios: []string{"H3"}}, true, false, false},
		{Options{Scenarios: []string{"H3", "cycle"}}, true, false, true},
		{Options{Scenarios: []string{"takeover"}}, false, false, false},
		{Options{Subjects: []string{"etcd"}}, false, false, false},
	} {
		got := []bool{c.o.match("hazards", "H3", "redis"), c.o.match("hazards", "H4", "redis"), c.o.match("costs", "cycle", "redis")}
		require.Equal(t, []bool{c.h3, c.h4, c.cyc}, got, "%+v", c.o)
	}
	require.ErrorContains(t, (&Options{URLs: []string{"redis://a"}, Scenarios: []string{"hazards", "cycle"}}).Check(), "hazards harm servers")
	require.NoError(t, (&Options{URLs: []string{"redis://a"}, Scenarios: []string{"costs", "cycle"}}).Check())
}

// Files of other names in the folder stay, also beside an earlier report.
func TestWrite(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "folder")
	own := filepath.Join(dir, PictureDir, "holiday.svg")
	require.NoError(t, os.MkdirAll(filepath.Dir(own), 0o755))
	require.NoError(t, os.WriteFile(own, []byte("<svg/>"), 0o644))
	r := &report.Report{
		Version:  report.Version,
		Subjects: []report.Subject{{Name: "redis", Title: "Redis"}},
		Hazards:  []report.Hazard{{ID: "H3", Title: "A late release"}},
		Cells:    []report.Cell{{Hazard: "H3", Subject: "redis", Run: report.Run{Class: report.Safe, Took: 1}}},
	}
	require.NoError(t, Write(dir, r))
	require.NoError(t, Write(dir, r))
	require.FileExists(t, own)
	require.FileExists(t, filepath.Join(dir, HTMLFile))
	require.FileExists(t, filepath.Join(dir, JSONFile)) // TestCompareWithoutAServer of the command reads it
	require.Error(t, Write(filepath.Join(dir, HTMLFile, "below"), r))
}
