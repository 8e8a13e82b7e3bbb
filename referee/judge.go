package main

import (
	"cmp"
	"regexp"
	"slices"
	"strings"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/referee/libraries"
)

// promises are the promises of docs/guarantees.md, in its order.
var promises = []struct{ Number, Title string }{
	{"P1", "exclusion"}, {"P2", "fencing"}, {"P3a", "silence"}, {"P3b", "removal"}, {"P4", "ownership"}, {"P5", "crash"},
	{"P6", "cancellation"}, {"P7", "liveness"}, {"P8", "no leaks"}, {"P9", "names"}, {"P10", "errors"}, {"P11", "no silent re-entry"},
}

// Verdict is the verdict on a library's promise.
type Verdict string

// The verdicts.
const (
	Held        Verdict = "held"         // no case failed in any run, and at least one passed in every run
	Refuted     Verdict = "refuted"      // a case failed in every run
	NotPromised Verdict = "not promised" // the library's documentation does not promise it
	NotRun      Verdict = "not run"      // a case failed in some runs only, or no case reached its rule
)

// Finding is a failed case of a promise that the library makes.
type Finding struct {
	Case, Rule, Seen string
	Failed, Runs     int    // failed in Failed of Runs runs
	Explained        string `json:",omitempty"`
}

// Refutes reports whether the case failed in every run.
func (f Finding) Refutes(runs int) bool { return f.Failed == runs }

// Cell is the verdict on one promise of a library, with its reasons.
type Cell struct {
	Promise  string
	Verdict  Verdict
	Source   string    `json:",omitempty"` // where the library makes the promise
	Passed   int       // cases that passed in every run
	Findings []Finding `json:",omitempty"`
}

// leading matches the promise at the start of a rule. Rules of the driver's contract start with none; no library promises them.
var leading = regexp.MustCompile(`^(P\d+[ab]?)[ ,:]`)

// promiseOf returns the number of a rule's promise, or "".
func promiseOf(rule string) string {
	if found := leading.FindStringSubmatch(rule); found != nil {
		return found[1]
	}
	return ""
}

// ours are cases that test what only lockport's driver promises, although their rules name a promise that others make too.
var ours = map[string]string{
	"exclusion/crowd":                 "it abandons claims at every moment, and Close returns an error if one could not be undone",
	"unknown/acquire-reply-lost-kept": "a claim may be repeated with the same owner",
}

// unready matches failures that say nothing about the rule, because the case did not reach it: the library returned an error on a healthy server,
// cannot undo a claim, or split the votes of servers. A failure whose reason names another promise is one too. Such a case counts as not run.
var unready = regexp.MustCompile(`^(nobody has the name|an acquisition failed on a healthy server|acquire in another process|Abandon of a claim|of \d+ claims at once 0 were granted)`)

// leak starts the reason of a case that passed but left connections open, which concerns another promise.
const leak = "P8 no leaks: when all is closed"

// source returns where a library makes the promise of that number. The reference makes every promise.
func source(s libraries.Subject, number string) string {
	if s.Name == libraries.Reference.Name && number != "" {
		return "docs/guarantees.md"
	}
	return s.Promises[number]
}

// counts reports whether a case tests a promise of the library.
func counts(s libraries.Subject, rule, id string) bool {
	return source(s, promiseOf(rule)) != "" && ours[id] == "" && !strings.HasPrefix(id, "several/") && s.Not[id] == ""
}

// judge returns the verdict on each promise. unable maps the cases that did not reach their rule to what prevented it.
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
