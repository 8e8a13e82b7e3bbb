package faults

import (
	"cmp"
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

//go:embed page.md.tmpl
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"anchor": anchor, "capital": capital,
	"list":     func(names []string) string { return cmp.Or(strings.Join(names, ", "), "–") },
	"sentence": func(s string) string { return capital(strings.TrimSuffix(s, ".") + ".") },
}).Parse(pageText))

// Render renders as Markdown what all cells state.
func Render() string {
	var p struct {
		Common   []play.Cell
		In       map[string]int // in how many environments a common fault has its usual outcome
		Sections []section
	}
	p.Common, p.In = Common(false), make(map[string]int)
	said := make(map[string][2]string) // where a reason was given first: the environment and the fault
	for _, e := range environment.All() {
		s := section{Environment: e}
		for _, c := range Cells(e.Name) {
			at := [2]string{e.Name, c.Fault}
			if _, again := said[c.Why]; !again {
				said[c.Why] = at
			}
			if slices.ContainsFunc(p.Common, func(usual play.Cell) bool { return same(&usual, &c) }) {
				p.In[c.Fault]++
			} else {
				s.Own = append(s.Own, row{c, cite(said[c.Why], at)})
			}
		}
		slices.SortStableFunc(s.Own, func(a, b row) int { return report.Compare(b.Outcome, a.Outcome) })
		p.Sections = append(p.Sections, s)
	}
	var out strings.Builder
	if err := pageTemplate.Execute(&out, p); err != nil {
		panic(err) // the template is part of the program
	}
	return out.String()
}

// section is an environment on the page.
type section struct {
	environment.Environment
	Own []row // the faults with another statement than usual, the worst first
}

// row is a cell on the page, and where the same reason was given before: "FAULT", "[ENVIRONMENT]" or both; empty: nowhere.
type row struct {
	play.Cell
	As string
}

// cite refers to the first use of a reason.
func cite(first, at [2]string) string {
	var as []string
	if first[0] != at[0] {
		as = append(as, "["+first[0]+"]")
	}
	if first[1] != at[1] {
		as = append(as, first[1])
	}
	return strings.Join(as, ", ")
}

// With returns the names of the faults with an outcome.
func (s section) With(o report.Class) (faults []string) {
	for _, c := range Cells(s.Name) {
		if c.Outcome == o {
			faults = append(faults, c.Fault)
		}
	}
	return faults
}

// anchor returns the link target that GitHub gives a heading.
func anchor(heading string) string {
	name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), "")
	return "#" + strings.ReplaceAll(name, " ", "-")
}

// capital returns s with its first letter in upper case.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
