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
		Common   []*row
		Sections []section
	}
	for _, c := range Common(false) {
		p.Common = append(p.Common, &row{Cell: c})
	}
	said := make(map[string][2]string) // where a reason was given first: the environment and the fault
	for _, e := range environment.All() {
		s := section{Environment: e}
		for _, c := range Cells(e.Name) {
			r := &row{Cell: c}
			if i := slices.IndexFunc(p.Common, func(u *row) bool { return same(&u.Cell, &c) }); i >= 0 {
				p.Common[i].In++
				r.usual = true
			}
			if first, again := said[c.Why]; again {
				r.cite(first, e.Name)
			} else {
				said[c.Why] = [2]string{e.Name, c.Fault}
			}
			s.rows = append(s.rows, r)
		}
		p.Sections = append(p.Sections, s)
	}
	var out strings.Builder
	if err := pageTemplate.Execute(&out, p); err != nil {
		panic(err) // the template is part of the program
	}
	return out.String()
}

// row is a cell on the page.
type row struct {
	play.Cell
	usual bool   // a common fault with its usual outcome
	In    int    // in how many environments it is one
	As    string // where the same reason was given before: "FAULT", "[ENVIRONMENT]" or both; empty: nowhere
}

// cite replaces the reason by a reference to its first use.
func (r *row) cite(first [2]string, environment string) {
	var as []string
	if first[0] != environment {
		as = append(as, "["+first[0]+"]")
	}
	if first[1] != r.Fault {
		as = append(as, first[1])
	}
	r.As = strings.Join(as, ", ")
}

// section is an environment on the page.
type section struct {
	environment.Environment
	rows []*row
}

// With returns the names of the faults with an outcome.
func (s section) With(o report.Class) (faults []string) {
	for _, r := range s.rows {
		if r.Outcome == o {
			faults = append(faults, r.Fault)
		}
	}
	return faults
}

// Own returns the faults with another statement than usual, the worst first.
func (s section) Own() []*row {
	own := slices.DeleteFunc(slices.Clone(s.rows), func(r *row) bool { return r.usual })
	slices.SortStableFunc(own, func(a, b *row) int { return report.Compare(b.Outcome, a.Outcome) })
	return own
}

// anchor returns the link target that GitHub gives a heading.
func anchor(heading string) string {
	name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), "")
	return "#" + strings.ReplaceAll(name, " ", "-")
}

// capital returns s with its first letter in upper case.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
