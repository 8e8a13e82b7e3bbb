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

// Refutation is a group of cases that failed in every run for the same reason.
type Refutation struct {
	Cases []string
	Seen  string // by the first
	Why   string `json:",omitempty"`
}

// Cell is the verdict on one promise of a library, with its reasons.
type Cell struct {
	Promise string
	Verdict Verdict
	Source  string       `json:",omitempty"` // where the library makes the promise
	Passed  int          // cases that passed in every run
	Refuted []Refutation `json:",omitempty"`
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
	"giving-up/server-gone":           "the first Acquire of a name returns ErrUnavailable on an unreachable server, and does not wait for its context",
	"unknown/acquire-reply-lost-kept": "a claim may be repeated with the same owner",
}

// unready matches failures that say nothing about the rule, because the case did not reach it: the library returned an error on a healthy server,
// cannot undo a claim, or split the votes of servers. A failure whose reason names another promise is one too. Such a case counts as not run.
var unready = regexp.MustCompile(`^(nobody has the name|an acquisition failed on a healthy server|acquire in another process|Abandon of a claim|of \d+ claims at once 0 were granted)`)

// leak starts the reason of a case that passed but left connections open, which concerns another promise.
const leak = "P8 no leaks: when all is closed"

// counts reports whether a case tests a promise of the library.
func counts(s libraries.Subject, rule, id string) bool {
	return s.Promises[promiseOf(rule)] != "" && ours[id] == "" && s.Not[id] == ""
}

// judge returns the verdict on each promise, and the cases that failed in some runs only.
func judge(s libraries.Subject, runs []conformance.Report) (cells []Cell, sometimes []string) {
	for _, p := range promises {
		cell := Cell{Promise: p.Number, Source: s.Promises[p.Number], Verdict: NotRun}
		unclear := len(sometimes)
		for i, c := range runs[0].Results {
			if promiseOf(c.Rule) != p.Number || !counts(s, c.Rule, c.ID()) {
				continue
			}
			passed, failed, seen := 0, 0, ""
			for _, run := range runs {
				switch res := run.Results[i]; {
				case res.Outcome == conformance.Pass || strings.HasPrefix(res.Reason, leak):
					passed++
				case res.Outcome == conformance.Fail && !unready.MatchString(res.Reason) && slices.Contains([]string{"", p.Number}, promiseOf(res.Reason)):
					failed++
					seen = res.Reason
				}
			}
			switch {
			case passed == len(runs):
				cell.Passed++
			case failed == len(runs):
				cell.refute(c.ID(), seen, cmp.Or(s.Explained[c.ID()], s.Explained[c.Group]))
			case failed > 0:
				sometimes = append(sometimes, c.ID())
			}
		}
		switch {
		case cell.Source == "":
			cell.Verdict = NotPromised
		case len(cell.Refuted) > 0:
			cell.Verdict = Refuted
		case cell.Passed > 0 && len(sometimes) == unclear:
			cell.Verdict = Held
		}
		cells = append(cells, cell)
	}
	return cells, sometimes
}

func (c *Cell) refute(id, seen, why string) {
	i := slices.IndexFunc(c.Refuted, func(r Refutation) bool { return r.Why == why })
	if i < 0 {
		i = len(c.Refuted)
		c.Refuted = append(c.Refuted, Refutation{Seen: seen, Why: why})
	}
	c.Refuted[i].Cases = append(c.Refuted[i].Cases, id)
}
