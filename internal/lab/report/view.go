package report

import (
	"embed"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"
	text "text/template"
)

//go:embed templates
var templates embed.FS

// docs is the address of the documentation that reports link to.
const docs = "https://github.com/lockport/lockport/blob/main/docs/"

// view is a report with methods for templates.
type view struct{ *Report }

// functions are for templates.
var functions = map[string]any{
	"look": lookOf, "docs": func() string { return docs },
	"quote": func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
	"css": func(name string) (template.CSS, error) {
		b, err := templates.ReadFile("templates/" + name)
		return template.CSS(b), err
	},
}

// pages are the templates of HTML and SVG, and summary is that of plain text, parsed on first use.
var (
	pages = sync.OnceValue(func() *template.Template {
		return template.Must(template.New("").Funcs(functions).ParseFS(templates, "templates/*.html.tmpl", "templates/*.svg.tmpl"))
	})
	summary = sync.OnceValue(func() *text.Template {
		return text.Must(text.ParseFS(templates, "templates/summary.txt.tmpl"))
	})
)

// HTML writes the report as one HTML file that opens offline. It has no script and loads nothing.
func (r *Report) HTML(w io.Writer) error {
	_, err := io.WriteString(w, render("report.html.tmpl", view{r}))
	return err
}

// Summary is the report for a terminal of 105 columns, enough for nine subjects: the matrix in short words, and the median costs. A word in capitals
// is harm that nothing caught.
func (r *Report) Summary() string {
	var all, b strings.Builder
	if err := summary().Execute(&all, view{r}); err != nil {
		panic(err)
	}
	for line := range strings.Lines(all.String()) {
		b.WriteString(cut(strings.TrimRight(printable(line, ""), " "), 105) + "\n")
	}
	return b.String()
}

// Looks returns the looks of the classes that were seen.
func (r view) Looks() []look {
	return slices.DeleteFunc(slices.Clone(looks), func(l look) bool {
		return !slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.shows(l.Class) })
	})
}

// play is a run of a cell on the page.
type play struct {
	Run
	Number  int
	Picture *drawing // nil if the run is only described
}

// Plays returns the runs of a cell, beginning with the one that shows its class. Runs of other classes have pictures too.
func (e *entry) Plays() (all []play) {
	best := e.best()
	for i, run := range e.Runs {
		p := play{Run: run, Number: i + 1}
		if i == best || run.Class != e.Class {
			p.Picture = e.timeline(&run)
		}
		all = append(all, p)
	}
	if best > 0 {
		all[0], all[best] = all[best], all[0]
	}
	return all
}
