package faults

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

//go:embed page.md.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"anchor": anchor, "capital": capital, "part": part, "ratio": ratio, "thousands": history.Thousands[int],
	"list":     func(names []string) string { return cmp.Or(strings.Join(names, ", "), "–") },
	"sentence": func(s string) string { return capital(strings.TrimSuffix(s, ".") + ".") },
}).Parse(pageText))

// page is the template's input.
type page struct {
	Views   []*view
	Common  []*usual
	Run     Run
	Timings []timing
	Missed  []string
	// Overlapped and Phases count over all safe and unavailable cells. Shown is how many of the Unsafe cells were seen to be unsafe.
	Overlapped, Phases, Shown, Unsafe int
}

// Render renders as Markdown what all cells state, and what was measured.
func Render(environments []Environment, m Measured) string {
	p := page{Run: m.Run, Timings: timings}
	for _, c := range Common(false) {
		p.Common = append(p.Common, &usual{Cell: c})
	}
	told := make(map[string][2]string)
	for i := range environments {
		v := p.add(&environments[i], m)
		v.cite(told)
		p.Missed = append(p.Missed, v.missed()...)
	}
	var out strings.Builder
	if err := pageTemplate.Execute(&out, p); err != nil {
		panic(err) // the template is part of the program
	}
	return out.String()
}

// add adds an environment with its figures.
func (p *page) add(e *Environment, m Measured) *view {
	v := &view{Environment: e, Sum: m.Arrangements[e.Name]}
	p.Views = append(p.Views, v)
	for i := range e.Cells {
		c := seen{Cell: &e.Cells[i], Figures: m.Cells[CellKey(&e.Environment, &e.Cells[i])]}
		switch {
		case c.Outcome.IsSafe():
			p.Overlapped += c.Figures.Overlapped
			p.Phases += c.Figures.Phases
		case !c.Argued && c.Figures.Phases > 0:
			p.Unsafe++
			p.Shown += min(1, c.Figures.Overlapped)
		}
		for _, u := range p.Common {
			if c.Fault == u.Fault && c.Outcome == u.Outcome && c.Why == u.Why {
				u.Figures.Add(c.Figures)
				u.In++
				c.usual = true
			}
		}
		v.cells = append(v.cells, c)
	}
	return v
}

// Named returns the versions with the names of their programs. Go reports "go1.26".
func (r Run) Named() (all []string) {
	for _, of := range slices.Sorted(maps.Keys(r.Versions)) {
		all = append(all, of+" "+strings.TrimPrefix(r.Versions[of], of))
	}
	return all
}

// seen is a cell with its figures.
type seen struct {
	*play.Cell
	Figures history.Figures
	usual   bool // a common fault with its usual outcome
	// As says where the same reason was given before: "FAULT", "[ENVIRONMENT]" or both. Empty: nowhere.
	As string
}

// usual is a common fault with the figures of the environments in which it has its usual outcome.
type usual struct {
	play.Cell
	Figures history.Figures
	In      int // how many environments
}

// view is an environment with its figures.
type view struct {
	*Environment
	Sum   history.Figures // of all cells
	cells []seen
}

// With returns the names of the faults with an outcome.
func (v *view) With(o report.Class) (faults []string) {
	for _, c := range v.cells {
		if c.Outcome == o {
			faults = append(faults, c.Fault)
		}
	}
	return faults
}

// cite replaces a repeated reason by a reference to its first use, which told has by reason.
func (v *view) cite(told map[string][2]string) {
	for i := range v.cells {
		c := &v.cells[i]
		first, ok := told[c.Why]
		if !ok {
			told[c.Why] = [2]string{v.Name, c.Fault}
			continue
		}
		if first[0] != v.Name {
			c.As = "[" + first[0] + "]"
		}
		if first[1] != c.Fault {
			c.As = strings.TrimPrefix(c.As+", "+first[1], ", ")
		}
	}
}

// find returns the cell of that fault, nil if there is none.
func find(all []play.Cell, fault string) *play.Cell {
	if i := slices.IndexFunc(all, func(c play.Cell) bool { return c.Fault == fault }); i >= 0 {
		return &all[i]
	}
	return nil
}

// Own returns the faults with another statement than usual, the worst first.
func (v *view) Own() []seen {
	own := slices.DeleteFunc(slices.Clone(v.cells), func(c seen) bool { return c.usual })
	slices.SortStableFunc(own, func(a, b seen) int { return report.Compare(b.Outcome, a.Outcome) })
	return own
}

// missed lists measurements that contradict the statements.
func (v *view) missed() (all []string) {
	add := func(bad bool, format string, args ...any) {
		if bad {
			all = append(all, fmt.Sprintf("[%s], ", v.Name)+fmt.Sprintf(format, args...))
		}
	}
	for _, c := range v.cells {
		f := &c.Figures
		disproved := c.Outcome.IsSafe() == (f.Overlapped > 0) && !(c.Argued && f.Overlapped == 0)
		add(f.Phases > 0 && disproved, "%s: stated to be %s, but two believed it in %s phases.", c.Fault, c.Outcome, part(f.Overlapped, f.Phases))
		for _, text := range exceeded(f, &v.Environment.Environment, c.Cell, 1) {
			add(true, "%s, %s.", c.Fault, text)
		}
	}
	late := v.Sum.LateReturn.Quantiles().P99
	add(late > promptly, "late return: %v for 99 in 100 (stated: %v).", rounded(late), promptly)
	return all
}

// anchor returns the link target that GitHub gives a heading.
func anchor(heading string) string {
	name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), "")
	return "#" + strings.ReplaceAll(name, " ", "-")
}

// capital returns s with its first letter in upper case.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// part writes "50 of 50".
func part(n, all int) string {
	if all == 0 {
		return "–"
	}
	return history.Thousands(n) + " of " + history.Thousands(all)
}

// ratio writes "50/50".
func ratio(n, all int) string { return strings.ReplaceAll(part(n, all), " of ", "/") }
