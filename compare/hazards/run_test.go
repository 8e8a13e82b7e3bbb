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
		t.Logf("%s: %s%s, %d of %d, late write %s: %s", c.ID(), c.NotRun, c.Class, c.Seen, c.Of, c.LateWrite, c.Observed)
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

// A late write that landed in any run is reported. Among runs of one class, the one in which it landed is shown.
func TestALateWriteThatLandedIsTold(t *testing.T) {
	one := func(class report.Class, observed string, refused bool) report.Run {
		return report.Run{Class: class, Observed: observed, Lanes: []report.Lane{{Writes: []report.Write{{Late: true, Refused: refused}}}}}
	}
	for says, runs := range map[string][]report.Run{
		"2 landed":  {one(report.Safe, "1", true), one(report.Safe, "2", false)},
		"3 landed":  {one(report.Safe, "1", false), one(report.Fenced, "3", true)},
		"4 refused": {one(report.Safe, "1", true), one(report.Fenced, "4", true)},
	} {
		c := (&cell{runs: runs}).report()
		require.Equal(t, says, c.Observed+" "+c.LateWrite)
	}
}

// A run has a cell for each scenario, with the worst class of its plays and how many showed it.
func TestCellsOfPlays(t *testing.T) {
	at := func(hazard, subject, environment string, script play.Act) scenario {
		return scenario{Cell: report.Cell{Hazard: hazard, Subject: subject, Setup: "a setup"}, Environment: environment, act: script, Plays: 3, Harmful: true}
	}
	n := 0
	all := []scenario{
		at("H1", "redis", "file", func(s *play.Phase) { s.Found(report.Safe, "Nothing.") }),
		at("H2", "redis", "file", func(s *play.Phase) {
			if n++; n != 1 {
				s.Found(report.Costly, "Time %d.", n)
			}
		}),
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
		require.Equal(t, c.Of, len(c.Runs))
		lines = append(lines, fmt.Sprintf("%s|%s|%s|%d/%d|%s", c.Hazard, c.NotRun, c.Class, c.Seen, c.Of, c.Observed))
	}
	require.Equal(t, []string{
		"H1||safe|0/3|Nothing.",
		"H2||hammers the server|2/3|Time 2.",
		"H3|It could not be played: something broke||0/0|",
		"H4|It could not be played: start: serverd not found: get it||0/0|",
		"H5|It could not be played: no space left||0/0|",
		"H6|It cannot be.||0/0|",
	}, lines)
	require.Contains(t, told[len(told)-1], "15/15 ")
	require.Contains(t, strings.Join(told, "\n"), "/15 starting a folder of one machine\n")
}

// A play that breaks off is played once more, and its observed harm counts.
func TestPlaysThatBreakOff(t *testing.T) {
	broke := errors.New("something broke")
	for name, c := range map[string]struct {
		plays    []report.Class // each but the last one breaks off; their findings
		class    report.Class
		seen, of int
	}{
		"no harm":                                {[]report.Class{report.Safe, report.Safe}, report.Safe, 0, 1},
		"harm, and then none":                    {[]report.Class{report.Unsafe, report.Safe}, report.Unsafe, 1, 2},
		"harm, and then again":                   {[]report.Class{report.Misled, report.Unsafe}, report.Unsafe, 1, 2},
		"harm twice, and both broke off":         {[]report.Class{report.Stuck, report.Stuck, ""}, report.Stuck, 2, 2},
		"nobody could have it, and it broke off": {[]report.Class{report.Unavailable, report.Unavailable, ""}, "", 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			n := -1
			cells, _, err := run(t.Context(), func(int, int, string) {}, []scenario{{Cell: report.Cell{Hazard: "H1", Subject: "file"}, Environment: "file", Plays: 1, act: func(s *play.Phase) {
				n++
				s.Found(c.plays[n], "Found.")
				if n < len(c.plays)-1 {
					play.Check(broke)
				}
			}}}, environments(t))
			require.NoError(t, err)
			told := cells[0]
			require.Equal(t, []any{c.class, c.seen, c.of}, []any{told.Class, told.Seen, told.Of})
			require.Contains(t, told.Observed+told.NotRun, "something broke")
		})
	}
}
