package main

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/referee/libraries"
)

// promises are those of docs/guarantees.md, in its order.
var promises = []struct{ Number, Title string }{
	{"P1", "exclusion"}, {"P2", "fencing"}, {"P3a", "told of silence"}, {"P3b", "told of removal"}, {"P4", "ownership"}, {"P5", "crash"},
	{"P6", "cancellation"}, {"P7", "liveness"}, {"P8", "no leaks"}, {"P9", "names"}, {"P10", "errors"}, {"P11", "no silent re-entry"},
}

// Verdict is what is said of a library and a promise.
type Verdict string

// The verdicts.
const (
	Held        Verdict = "held"         // no case failed in any run, and one at least passed in every run
	Refuted     Verdict = "refuted"      // a case failed in every run
	NotPromised Verdict = "not promised" // the library's documentation does not say it
	NotRun      Verdict = "not run"      // neither: a case failed in some runs alone, or none came as far as its rule
)

// Finding is a case that failed, of a promise that the library makes.
type Finding struct {
	Case, Rule, Seen string
	Failed, Runs     int    // it failed so often
	Explained        string `json:",omitempty"`
}

// Refutes says that it failed whenever it was run.
func (f Finding) Refutes(runs int) bool { return f.Failed == runs }

// Cell is what is said of a library and a promise, and why.
type Cell struct {
	Promise  string
	Verdict  Verdict
	Source   string    `json:",omitempty"` // of the promise
	Passed   int       // cases that passed in every run
	Findings []Finding `json:",omitempty"`
}

// leading is the promise that a rule begins with. Rules of the driver's contract have none, and no library promised them.
var leading = regexp.MustCompile(`^(P\d+[ab]?)[ ,:]`)

// promiseOf is the number of the promise that a rule is about, or nothing.
func promiseOf(rule string) string {
	if found := leading.FindStringSubmatch(rule); found != nil {
		return found[1]
	}
	return ""
}

// ours are cases that try what only lockport's driver promises, although their rules name a promise that others make too.
var ours = map[string]string{
	"exclusion/crowd":                 "it gives up claims at every moment, and Close returns an error if one could not be undone",
	"unknown/acquire-reply-lost-kept": "a claim may be made again with the same owner",
}

// unready are failures that say nothing of the rule: the case did not come as far, because the library returned an error on a server that was well, cannot
// undo a claim, or split the votes of several servers. So is one whose reason names another promise. The case then counts as not run.
var unready = regexp.MustCompile(`^(nobody has the name|an acquisition failed on a healthy server|acquire in another process|claim in another process|Abandon of a claim|of \d+ claims at once 0 were granted)`)

// leak begins what is said of a case that passed and left connections behind, which is another promise.
const leak = "P8 no leaks: when all is closed"

// source is where a library promises what has that number. The reference promises everything.
func source(s libraries.Subject, number string) string {
	if s.Name == libraries.Reference.Name && number != "" {
		return "docs/guarantees.md"
	}
	return s.Promises[number]
}

// counts says whether a case tries what the library promises.
func counts(s libraries.Subject, rule, id string) bool {
	return source(s, promiseOf(rule)) != "" && ours[id] == "" && !strings.HasPrefix(id, "several/") && s.Not[id] == ""
}

// judge is what the runs say of each promise. unable are the cases that did not come as far as their rule, with what hindered them.
func judge(s libraries.Subject, runs []conformance.Report) (cells []Cell, unable map[string]string) {
	unable = make(map[string]string)
	for _, p := range promises {
		cell := Cell{Promise: p.Number, Source: source(s, p.Number), Verdict: NotRun}
		for i, c := range runs[0].Results {
			if promiseOf(c.Rule) != p.Number || !counts(s, c.Rule, c.ID()) {
				continue
			}
			f := Finding{Case: c.ID(), Rule: c.Rule, Explained: cmp.Or(s.Explained[c.ID()], s.Explained[c.Group])}
			passed := 0
			for _, run := range runs {
				switch res := run.Results[i]; {
				case res.Outcome == conformance.Pass || strings.HasPrefix(res.Reason, leak):
					passed++
					f.Runs++
				case res.Outcome == conformance.Fail && (unready.MatchString(res.Reason) || !slices.Contains([]string{"", p.Number}, promiseOf(res.Reason))):
					unable[c.ID()] = res.Reason
				case res.Outcome == conformance.Fail:
					f.Failed++
					f.Runs++
					f.Seen = res.Reason
				}
			}
			if passed == len(runs) {
				cell.Passed++
			}
			if f.Failed > 0 {
				cell.Findings = append(cell.Findings, f)
			}
		}
		switch {
		case cell.Source == "":
			cell.Verdict = NotPromised
		case slices.ContainsFunc(cell.Findings, func(f Finding) bool { return f.Refutes(len(runs)) }):
			cell.Verdict = Refuted
		case cell.Passed > 0 && len(cell.Findings) == 0:
			cell.Verdict = Held
		}
		cells = append(cells, cell)
	}
	return cells, unable
}
