package report

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	"sync"
	text "text/template"
	"time"
)

//go:embed templates
var templates embed.FS

// docs is where the documentation is, whose pages a report names.
const docs = "https://github.com/lockport/lockport/blob/main/docs/"

// view is what both pages show, as HTML and as Markdown.
type view struct {
	*Report
	Mode, Took, On, Docs, Command string
	Findings                      []finding
	Columns                       []Subject
	Matrix                        []row
	Looks                         []look
	Legend                        *pictures
	Lessons, Ran                  Table
	Sections                      []section
	NotMeasured                   []string
	OwnServers                    bool // not those of a user
}

func (r *Report) view() *view {
	v := &view{
		Report: r, Mode: "quick", Took: (time.Duration(r.Seconds) * time.Second).String(), On: r.Machine.String(), Docs: docs,
		Command: r.command(), Findings: r.findings(), Columns: r.columns(), Matrix: r.rows(), Looks: looks, Legend: legend(), Ran: r.subjectTable(),
		Lessons: lessons, Sections: r.costSections(), NotMeasured: r.notMeasured(),
		OwnServers: !slices.ContainsFunc(r.Subjects, func(s Subject) bool { return s.URL != "" }),
	}
	if r.Full {
		v.Mode = "full"
	}
	if r.landed() {
		v.Looks = append(slices.Clone(looks), look{lateLanded, "safe", "", meansLanded, ""})
	}
	return v
}

// Titles are what people call subjects: "Redis and etcd".
func (v *view) Titles(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, v.title(name))
	}
	return list(all)
}

// functions are what templates call.
var functions = map[string]any{
	"md": md, "code": func(s string) string { return strings.ReplaceAll(oneLine(s), "`", "'") }, "capital": capital, "stop": fullStop, "look": lookOf, "shown": shown,
	"lateLanded": func() string { return lateLanded },
	"css": func(name string) (template.CSS, error) {
		b, err := templates.ReadFile("templates/" + name)
		return template.CSS(b), err
	},
	"lesson": func(number string) string {
		if i := slices.IndexFunc(lessons.Rows, func(r Row) bool { return r.Cells[0] == number }); i >= 0 {
			return lessons.Rows[i].ID
		}
		return ""
	},
}

// pages are the templates of HTML and SVG, parsed when they are first needed.
var pages = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(functions).ParseFS(templates, "templates/*.html.tmpl", "templates/*.svg.tmpl"))
})

// HTML writes the report as one HTML file that opens offline. It has no script and loads nothing.
func (r *Report) HTML(w io.Writer) error {
	_, err := io.WriteString(w, render("report.html.tmpl", r.view()))
	return err
}

// Markdown writes the report as Markdown, with the pictures of [Report.Pictures] in a folder "pictures" beside it.
func (r *Report) Markdown(w io.Writer) error {
	t, err := text.New("report.md.tmpl").Funcs(functions).ParseFS(templates, "templates/report.md.tmpl")
	if err != nil {
		return err
	}
	return t.Execute(w, r.view())
}

// md makes a text safe in a line of Markdown: nothing in it is HTML, a link, or the end of a table's cell.
func md(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, `\`, `\\`).
		Replace(strings.Join(strings.Fields(oneLine(text)), " "))
}

// play is a run of a cell on the page.
type play struct {
	Caption string
	Picture *pictures // nil for those that are only told
}

// Plays are the runs of a cell. The first shows its class; others are drawn where they show another one.
func (e *entry) Plays() (all []play) {
	best := e.best()
	for i, run := range e.Runs {
		p := play{}
		if len(e.Runs) > 1 {
			p.Caption = fmt.Sprintf("Run %d of %d: %s.", i+1, len(e.Runs), run.Class)
			if run.Observed != e.Observed {
				p.Caption += " " + run.Observed
			}
		}
		if i == best || run.Class != e.Class {
			p.Picture = e.timeline(i)
		}
		if i == best {
			all = slices.Insert(all, 0, p)
		} else {
			all = append(all, p)
		}
	}
	return all
}

// Late says what became of a late write.
func (c *Cell) Late() string {
	switch c.LateWrite {
	case "":
		return ""
	case "refused":
		return "The late write of the older holder was refused."
	}
	return "The late write of the older holder " + c.LateWrite + "."
}

// lessons are the articles whose locks are compared, by the numbers that hazards name.
var lessons = Table{
	Head: []string{"article", "language", "what it teaches"},
	Rows: []Row{
		{ID: "article-000", Cells: []string{"000", "PHP", "SETNX, EXPIRE and DEL; then SET NX EX, and a script that releases; waiters ask every 200 ms, ten times"}},
		{ID: "article-001", Cells: []string{"001", "Python", "SETNX and EXPIRE, and a release by WATCH and MULTI; waiters ask every millisecond; and what if the server is down"}},
		{ID: "article-002", Cells: []string{"002", "Java", "Redlock as Redisson has it: five servers, asked one after the other"}},
		{ID: "article-003", Cells: []string{"003", "Java", "SETNX with the id of a thread, released by a plain DEL, by GET and then DEL, and by a script at last"}},
		{ID: "article-004", Cells: []string{"004", "PHP", "SET NX EX with an owner of four digits, a script that releases, waiters that ask every 5 ms; and what Redlock does not solve"}},
	},
}

// String is the machine for people.
func (m Machine) String() string {
	parts := []string{m.OS, m.CPU, plural(m.Cores, "core", "cores"), significant(float64(m.Memory)/(1<<30)) + " GiB", m.Go, "lockport " + m.Lockport}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}

// subjectTable is what was compared.
func (r *Report) subjectTable() Table {
	t := Table{Head: []string{"", "servers", "how they were set up to be measured"}}
	for _, s := range r.Subjects {
		setup := ""
		for _, c := range r.Costs {
			if c.Subject == s.Name {
				setup = c.Setup
			}
		}
		t.Rows = append(t.Rows, Row{Cells: []string{capital(r.title(s.Name)), cmp.Or(strings.TrimSpace(s.Servers+" "+s.URL), "none"), cmp.Or(setup, "–")}})
	}
	return t
}

// command makes such a report again.
func (r *Report) command() string {
	words := []string{"lockport compare"}
	if r.Full {
		words = append(words, "--full")
	}
	for _, s := range r.Subjects {
		if s.URL != "" {
			words = append(words, "--url '"+strings.ReplaceAll(s.URL, "'", `'\''`)+"'")
		}
	}
	return strings.Join(words, " ")
}
