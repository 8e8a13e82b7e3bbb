package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"
	text "text/template"
)

//go:embed templates
var templates embed.FS

// docs is where the documentation is, whose pages a report names.
const docs = "https://github.com/lockport/lockport/blob/main/docs/"

// view is a report with what templates ask of it.
type view struct{ *Report }

// functions are what templates call.
var functions = map[string]any{
	"md": md, "code": func(s string) string { return strings.ReplaceAll(printable(s, ""), "`", "'") }, "look": lookOf, "shown": shown,
	"docs":  func() string { return docs },
	"quote": func(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" },
	"css": func(name string) (template.CSS, error) {
		b, err := templates.ReadFile("templates/" + name)
		return template.CSS(b), err
	},
}

// pages are the templates of HTML and SVG, and texts those of Markdown and text, parsed when they are first needed.
var (
	pages = sync.OnceValue(func() *template.Template {
		return template.Must(template.New("").Funcs(functions).ParseFS(templates, "templates/*.html.tmpl", "templates/*.svg.tmpl"))
	})
	texts = sync.OnceValue(func() *text.Template {
		return text.Must(text.New("").Funcs(functions).ParseFS(templates, "templates/*.md.tmpl", "templates/*.txt.tmpl"))
	})
)

// HTML writes the report as one HTML file that opens offline. It has no script and loads nothing.
func (r *Report) HTML(w io.Writer) error {
	_, err := io.WriteString(w, render("report.html.tmpl", view{r}))
	return err
}

// Markdown writes the report as Markdown, with the pictures of [Report.Pictures] in a folder "pictures" beside it.
func (r *Report) Markdown(w io.Writer) error {
	return texts().ExecuteTemplate(w, "report.md.tmpl", view{r})
}

// Summary is the report as text for a terminal of 105 columns, as many as nine subjects need: the matrix in short words, and the medians of the costs. A word in capitals is that of
// harm which nothing caught.
func (r *Report) Summary() string {
	var all, b strings.Builder
	if err := texts().ExecuteTemplate(&all, "summary.txt.tmpl", view{r}); err != nil {
		panic(err)
	}
	for line := range strings.Lines(all.String()) {
		b.WriteString(cut(strings.TrimRight(printable(line, ""), " "), 105) + "\n")
	}
	return b.String()
}

// md makes a text safe in a line of Markdown: nothing in it is HTML, a link, or the end of a table's cell.
func md(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, `\`, `\\`).
		Replace(strings.Join(strings.Fields(printable(text, "")), " "))
}

// Looks are those of the classes that were seen.
func (r view) Looks() []look {
	return slices.DeleteFunc(slices.Clone(looks), func(l look) bool {
		return !slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.shows(l.Class) })
	})
}

// play is a run of a cell on the page.
type play struct {
	Run
	Number  int
	Picture *drawing // nil for those that are only told
}

// Plays are the runs of a cell, first the one that shows its class. Others are drawn where they show another class.
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

// String is the machine for people.
func (m Machine) String() string {
	parts := []string{m.OS, m.CPU, fmt.Sprintf("GOMAXPROCS=%d", m.Cores), significant(float64(m.Memory)/(1<<30)) + " GiB", m.Go, "lockport " + m.Lockport}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}
