package main

import (
	"encoding/json"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/pages"
	"github.com/lockport/lockport/referee/libraries"
	"github.com/lockport/lockport/referee/repro"
)

func TestMain(m *testing.M) {
	conformance.WorkerMain(openTarget)
	m.Run()
}

// Every library excludes through its driver.
func TestLibrariesExclude(t *testing.T) {
	on := make(map[string][]libraries.Subject)
	for _, s := range libraries.Subjects() {
		on[s.Environment] = append(on[s.Environment], s)
	}
	for name, subjects := range on {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := environment.Need(t, name)
			for _, s := range subjects {
				report := conformance.Run(t.Context(), conformance.Config{Open: s.Backend, Target: r.URL(), Local: true},
					conformance.Match(func(c conformance.Case) bool { return c.ID() == "exclusion/two-backends" }))
				require.Empty(t, report.Error)
				require.Equal(t, 1, report.Passed, "%s: %+v", s.Name, report.Results)
			}
		})
	}
}

// A case counts only if its promise was made, and refutes only if it failed in every run.
func TestJudge(t *testing.T) {
	s := libraries.Subject{Promises: map[string]string{"P1": "x", "P7": "x"}, Not: map[string]string{"exclusion/b": "not said"}}
	run := func(outcomes ...string) conformance.Report {
		var r conformance.Report
		for i, c := range []struct{ group, name, rule string }{
			{"exclusion", "a", "P1 exclusion: one holder"}, {"exclusion", "b", "P1 exclusion: not promised"},
			{"contract", "c", "contract, P3a silence: ours"}, {"liveness", "d", "P7 liveness: woken"}, {"fencing", "e", "P2 fencing: rising"},
			{"exclusion", "crowd", "P1 exclusion: ours"}, {"liveness", "f", "P7 liveness: soon"},
		} {
			outcome, reason, _ := strings.Cut(append(outcomes, "pass", "pass", "pass", "pass", "pass", "pass", "pass")[i], ": ")
			r.Results = append(r.Results, conformance.Result{Group: c.group, Name: c.name, Rule: c.rule, Outcome: conformance.Outcome(outcome), Reason: reason})
		}
		return r
	}
	verdict := func(promise string, runs ...conformance.Report) Verdict {
		cells, _ := judge(s, runs)
		return cells[slices.IndexFunc(cells, func(c Cell) bool { return c.Promise == promise })].Verdict
	}
	good := run("pass", "fail: x", "fail: x", "pass", "fail: x", "fail: x")
	bad := run("fail: two holders")
	away := run("fail: nobody has the name, yet a claim was not granted: too many connections", "pass", "pass", "fail: "+leak+", one is left")
	require.Equal(t, Held, verdict("P1", good, good))
	require.Equal(t, Refuted, verdict("P1", bad, bad))
	require.Equal(t, NotRun, verdict("P1", bad, good), "it failed in one run only")
	require.Equal(t, NotRun, verdict("P1", away, away), "the case did not reach its rule")
	require.Equal(t, NotRun, verdict("P1", run("fail: P7 liveness: somebody waits")), "the reason names another promise")
	require.Equal(t, NotRun, verdict("P1", run("not run: no fault")))
	require.Equal(t, Held, verdict("P7", good, away), "leaked connections concern another promise")
	require.Equal(t, Held, verdict("P7", good, bad), "a case of another promise failed in one run only")
	require.Equal(t, NotPromised, verdict("P2", good, bad))
	require.Equal(t, NotPromised, verdict("P3a", good, bad), "libraries do not promise the driver's contract")
	mixed := run("fail: two holders", "pass", "pass", "pass", "pass", "pass", "fail: late")
	require.Equal(t, NotRun, verdict("P7", bad, mixed), "one of its cases failed in one run only")
	cells, sometimes := judge(s, []conformance.Report{bad, mixed})
	require.Equal(t, []string{"liveness/f"}, sometimes)
	require.Equal(t, []Refutation{{Cases: []string{"exclusion/a"}, Seen: "two holders"}}, cells[0].Refuted)
}

// Every case named in the table of libraries exists, and every promise has its source.
func TestTableOfLibraries(t *testing.T) {
	cases := make(map[string]bool)
	for _, c := range conformance.Cases() {
		cases[c.ID()], cases[c.Group] = true, true
	}
	for _, s := range append(libraries.Subjects(), libraries.Subject{Not: ours}) {
		for _, list := range []map[string]string{s.Not, s.Explained} {
			for id, why := range list {
				require.True(t, cases[id], "%s names %s", s.Name, id)
				require.NotEmpty(t, why)
			}
		}
		for number, source := range s.Promises {
			require.NotEqual(t, number, titleOf(number))
			require.NotEmpty(t, source)
		}
	}
}

// The page matches the results.
func TestPage(t *testing.T) {
	var p Page
	require.NoError(t, json.Unmarshal([]byte(pages.Read(t, "referee.json")), &p))
	pages.Is(t, "referee.md", string(markdown("page", p)))
}

// Each reproduction prints what the list says. make referee and make soak run them.
func TestReproductions(t *testing.T) {
	environment.OnlyInSoak(t)
	referee := t.TempDir() + "/referee"
	out, err := exec.Command("go", "build", "-o", referee, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	on := make(map[string][]repro.Reproduction)
	for _, r := range repro.All {
		on[r.Environment] = append(on[r.Environment], r)
	}
	for name, all := range on {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := environment.Need(t, name).Nodes()[0].Addr()
			for _, r := range all {
				t.Run(r.Name, func(t *testing.T) {
					t.Parallel()
					out, err := exec.Command(referee, "-repro", r.Name, addr).Output() // clients log to standard error
					require.NoError(t, err, "%s", out)
					require.Regexp(t, r.Prints, string(out))
				})
			}
		})
	}
}
