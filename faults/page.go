package faults

import (
	"cmp"
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"text/template"

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

// page is the template's input.
type page struct {
	Views  []*view
	Common []*usual
}

// Render renders as Markdown what all cells state.
func Render(environments []Environment) string {
	var p page
	for _, c := range Common(false) {
		p.Common = append(p.Common, &usual{Cell: c})
	}
	told := make(map[string][2]string)
	for i := range environments {
		p.add(&environments[i]).cite(told)
	}
	var out strings.Builder
	if err := pageTemplate.Execute(&out, p); err != nil {
		panic(err) // the template is part of the program
	}
	return out.String()
}

// add adds an environment.
func (p *page) add(e *Environment) *view {
	v := &view{Environment: e}
	p.Views = append(p.Views, v)
	for i := range e.Cells {
		c := stated{Cell: &e.Cells[i]}
		for _, u := range p.Common {
			if c.Fault == u.Fault && c.Outcome == u.Outcome && c.Why == u.Why {
				u.In++
				c.usual = true
			}
		}
		v.cells = append(v.cells, c)
	}
	return v
}

// stated is a cell on the page.
type stated struct {
	*play.Cell
	usual bool // a common fault with its usual outcome
	// As says where the same reason was given before: "FAULT", "[ENVIRONMENT]" or both. Empty: nowhere.
	As string
}

// usual is a common fault with its usual outcome.
type usual struct {
	play.Cell
	In int // how many environments
}

// view is an environment on the page.
type view struct {
	*Environment
	cells []stated
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
func (v *view) Own() []stated {
	own := slices.DeleteFunc(slices.Clone(v.cells), func(c stated) bool { return c.usual })
	slices.SortStableFunc(own, func(a, b stated) int { return report.Compare(b.Outcome, a.Outcome) })
	return own
}

// anchor returns the link target that GitHub gives a heading.
func anchor(heading string) string {
	name := regexp.MustCompile(`[^\p{L}\p{N} _-]`).ReplaceAllString(strings.ToLower(heading), "")
	return "#" + strings.ReplaceAll(name, " ", "-")
}

// capital returns s with its first letter in upper case.
func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
