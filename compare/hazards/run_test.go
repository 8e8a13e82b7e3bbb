package hazards

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/lockport/lockport/backend/all" // workers open them
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

var cellsOf = flag.String("cells", "-(article|file|redis|redlock)$", "cells that TestRun plays, as a regular expression (\"^H7-redis\"); by default those whose servers start fast")

func TestMain(m *testing.M) {
	WorkerMain()
	m.Run()
}

// A run on real servers sees the stated class of each cell. make soak covers all backends.
func TestRun(t *testing.T) {
	if testing.Short() {
		t.Skip("not run: starts all servers, and takes a minute")
	}
	begun := time.Now()
	match := func(hazard, subject string) bool {
		return regexp.MustCompile(*cellsOf).MatchString(hazard + "-" + subject)
	}
	planned := slices.DeleteFunc(table(), func(s scenario) bool { return !match(s.Hazard, s.Subject) })
	cells, missing, err := Run(t.Context(), match, func(done, total int, what string) {
		t.Logf("%5.1f s: %d of %d: %s", time.Since(begun).Seconds(), done, total, what)
	})
	require.NoError(t, err)
	for _, m := range missing {
		servers.NeedInstalled(t, &servers.NotInstalled{Program: m.Program, Install: m.Install})
	}
	require.Len(t, cells, len(planned))
	for _, c := range cells {
		t.Logf("%s: %s%s, late write %s: %s", c.ID(), c.NotRun, c.Class, c.LateWrite, c.Observed)
		if want := golden[c.ID()]; c.Class != want {
			t.Errorf("%s is stated to be %q, and was seen to be %q: %s%s", c.ID(), want, c.Class, c.NotRun, c.Observed)
		}
	}
}

// environments are a folder, and two environments that do not start.
func environments(t *testing.T) []environment.Environment {
	folder, err := environment.Named("file")
	require.NoError(t, err)
	broken := func(name string, err error) environment.Environment {
		return environment.Environment{Name: name, Start: func(context.Context) (environment.Servers, error) { return nil, err }}
	}
	missing := fmt.Errorf("start: %w", &servers.NotInstalled{Program: "serverd", Install: "get it"})
	return []environment.Environment{*folder, broken("missing", missing), broken("broken", errors.New("no space left"))}
}

// A run has a cell for each scenario, with what its play showed, or why it was not played.
func TestCells(t *testing.T) {
	at := func(hazard, subject, environment string, script play.Act) scenario {
		return scenario{Cell: report.Cell{Hazard: hazard, Subject: subject, Setup: "a setup"}, Environment: environment, act: script, Harmful: true}
	}
	all := []scenario{
		at("H1", "redis", "file", func(s *play.Phase) { s.Found(report.Safe, "Nothing.") }),
		at("H2", "redis", "file", func(s *play.Phase) { s.Found(report.Costly, "Much.") }),
		at("H3", "redis", "file", func(*play.Phase) { play.Check(errors.New("something\nbroke")) }),
		at("H4", "redis", "missing", nil),
		at("H5", "redis", "broken", nil),
		{Cell: report.Cell{Hazard: "H6", Subject: "redis", NotRun: "It cannot be."}},
	}
	var told []string
	progress := func(done, total int, what string) { told = append(told, fmt.Sprintf("%d/%d %s", done, total, what)) }
	cells, missing, err := run(t.Context(), progress, all, environments(t))
	require.NoError(t, err)
	require.Equal(t, []report.Missing{{Subject: "redis", Program: "serverd", Install: "get it"}}, missing)
	var lines []string
	for _, c := range cells {
		lines = append(lines, fmt.Sprintf("%s|%s|%s|%s", c.Hazard, c.NotRun, c.Class, c.Observed))
	}
	require.Equal(t, []string{
		"H1||safe|Nothing.",
		"H2||hammers the server|Much.",
		"H3|It could not be played: something broke||",
		"H4|It could not be played: start: serverd not found: get it||",
		"H5|It could not be played: no space left||",
		"H6|It cannot be.||",
	}, lines)
	require.Contains(t, told[len(told)-1], "5/5 ")
	require.Contains(t, strings.Join(told, "\n"), "/5 starting a folder of one machine\n")
}

// A play that breaks off is played once more, and its observed harm counts.
func TestPlaysThatBreakOff(t *testing.T) {
	broke := errors.New("something broke")
	for name, c := range map[string]struct {
		plays []report.Class // each but the last one breaks off; their findings
		class report.Class
	}{
		"no harm":                                {[]report.Class{report.Safe, report.Safe}, report.Safe},
		"harm, and then none":                    {[]report.Class{report.Unsafe, report.Safe}, report.Unsafe},
		"harm, and then again":                   {[]report.Class{report.Misled, report.Unsafe}, report.Unsafe},
		"harm twice, and both broke off":         {[]report.Class{report.Stuck, report.Stuck, ""}, report.Stuck},
		"nobody could have it, and it broke off": {[]report.Class{report.Unavailable, report.Unavailable, ""}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			n := -1
			cells, _, err := run(t.Context(), func(int, int, string) {}, []scenario{{Cell: report.Cell{Hazard: "H1", Subject: "file"}, Environment: "file", act: func(s *play.Phase) {
				n++
				s.Found(c.plays[n], "Found.")
				if n < len(c.plays)-1 {
					play.Check(broke)
				}
			}}}, environments(t))
			require.NoError(t, err)
			told := cells[0]
			require.Equal(t, c.class, told.Class)
			require.Contains(t, told.Observed+told.NotRun, "something broke")
		})
	}
}
