package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
	text "text/template"
)

//go:embed templates
var templates embed.FS

// What every drawing looks like: the colours, in light and in dark, and the classes and patterns that drawings use.
var (
	coloursCSS = embedded("colours.css")
	drawingCSS = embedded("drawing.css")
	defsSVG    = embedded("defs.svg")
)

func embedded(name string) string {
	b, err := templates.ReadFile("templates/" + name)
	if err != nil {
		panic(err) // it was embedded
	}
	return string(b)
}

// docs is where the documentation is, whose pages a report names.
const docs = "https://github.com/lockport/lockport/blob/main/docs/"

// mostRuns is how many runs of a cell are drawn: one that shows its class, and others of other classes. More of the same are told in words.
const mostRuns = 3

// view is what both pages show, as HTML and as Markdown.
type view struct {
	*Report
	Heading, Mode, Took, On, Docs, Command string
	Findings                               []finding
	Columns                                []Subject
	Matrix                                 []row
	Looks                                  []look
	Lessons, Ran                           Table
	Sections                               []section
	NotMeasured                            []string
	OwnServers                             bool // not those of a user
}

func (r *Report) view() *view {
	v := &view{
		Report: r, Heading: "Distributed locks: what goes wrong, and what they cost", Mode: "quick", Took: seconds(r.Seconds), On: r.Machine.String(), Docs: docs, Command: r.command(),
		Findings: r.findings(), Columns: r.columns(), Matrix: r.rows(), Looks: looks, Lessons: lessons, Ran: r.subjectTable(), Sections: r.costSections(), NotMeasured: r.notMeasured(),
		OwnServers: !slices.ContainsFunc(r.Subjects, func(s Subject) bool { return s.URL != "" }),
	}
	if r.Full {
		v.Mode = "full"
	}
	switch {
	case len(r.Cells) == 0 && len(r.Costs) > 0:
		v.Heading = "Distributed locks: what they cost"
	case len(r.Cells) > 0 && len(r.Costs) == 0:
		v.Heading = "Distributed locks: what goes wrong"
	}
	of := func(c Cell) bool { return c.Subject == Article }
	if !slices.ContainsFunc(r.Hazards, func(h Hazard) bool { return len(h.Articles) > 0 }) && !slices.ContainsFunc(r.Cells, of) {
		v.Lessons = Table{}
	}
	if r.landed() {
		v.Looks = append(slices.Clone(looks), look{lateLanded, "safe", "", meansLanded, ""})
	}
	return v
}

// functions are what templates call, for texts that are escaped by escape.
func (r *Report) functions(escape func(string) string) map[string]any {
	return map[string]any{
		"md": escape, "code": func(s string) string { return strings.ReplaceAll(oneLine(s), "`", "'") }, "capital": capital, "stop": fullStop, "list": list,
		"title": r.title, "look": lookOf, "shown": shown, "plays": r.plays, "late": lateWrite, "legend": timelineLegend, "lateLanded": func() string { return lateLanded },
		"style": func() template.CSS { return template.CSS(coloursCSS + drawingCSS + embedded("style.css")) },
		"defs":  func() template.HTML { return template.HTML(defsSVG) },
		"lesson": func(number string) string {
			if i := slices.IndexFunc(lessons.Rows, func(row []string) bool { return row[0] == number }); i >= 0 {
				return lessons.IDs[i]
			}
			return ""
		},
		"titles": func(names []string) string {
			var all []string
			for _, name := range names {
				all = append(all, r.title(name))
			}
			return list(all)
		},
	}
}

// HTML writes the report as one HTML file that opens offline. It has no script and loads nothing.
func (r *Report) HTML(w io.Writer) error {
	t, err := template.New("report.html.tmpl").Funcs(r.functions(oneLine)).ParseFS(templates, "templates/report.html.tmpl")
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := t.Execute(&b, r.view()); err != nil {
		return err
	}
	_, err = io.WriteString(w, strings.Map(character, strings.ToValidUTF8(b.String(), "\uFFFD")))
	return err
}

// character is r, or U+FFFD for what no HTML may have.
func character(r rune) rune {
	if r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 {
		return '\uFFFD'
	}
	return r
}

// Markdown writes the report as Markdown, with the pictures of [Report.Pictures] in a folder "pictures" beside it.
func (r *Report) Markdown(w io.Writer) error {
	t, err := text.New("report.md.tmpl").Funcs(r.functions(md)).ParseFS(templates, "templates/report.md.tmpl")
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
	Picture *picture // nil for those that are only told
}

// plays are the runs of a cell: the first shows its class.
func (r *Report) plays(c *Cell) (all []play) {
	best, drawn := c.best(), 1
	for i, run := range c.Runs {
		p := play{}
		if len(c.Runs) > 1 {
			p.Caption = fmt.Sprintf("Run %d of %d: %s.", i+1, len(c.Runs), run.Class)
			if run.Observed != c.Observed {
				p.Caption += " " + run.Observed
			}
		}
		switch {
		case i == best:
			p.Picture = r.timelinePicture(c, i)
			all = slices.Insert(all, 0, p)
			continue
		case run.Class != c.Class && drawn < mostRuns:
			p.Picture = r.timelinePicture(c, i)
			drawn++
		}
		all = append(all, p)
	}
	return all
}

// lateWrite says what became of a late write.
func lateWrite(c *Cell) string {
	switch c.LateWrite {
	case "":
		return ""
	case "refused", "landed":
		return "The late write of the older holder " + map[bool]string{true: "landed.", false: "was refused."}[c.LateWrite == "landed"]
	}
	return "The late write of the older holder: " + c.LateWrite
}

// lessons are the articles whose locks are compared, by the numbers that hazards name.
var lessons = Table{
	Head: []string{"article", "language", "what it teaches"},
	Rows: [][]string{
		{"000", "PHP", "SETNX, EXPIRE and DEL; then SET NX EX, and a script that releases; waiters ask every 200 ms, ten times"},
		{"001", "Python", "SETNX and EXPIRE, and a release by WATCH and MULTI; waiters ask every millisecond; and what if the server is down"},
		{"002", "Java", "Redlock as Redisson has it: five servers, asked one after the other"},
		{"003", "Java", "SETNX with the id of a thread, released by a plain DEL, by GET and then DEL, and by a script at last"},
		{"004", "PHP", "SET NX EX with an owner of four digits, a script that releases, waiters that ask every 5 ms; and what Redlock does not solve"},
	},
	IDs: []string{"article-000", "article-001", "article-002", "article-003", "article-004"},
}

// String is the machine for people.
func (m Machine) String() string {
	parts := []string{m.OS, m.CPU, plural(m.Cores, "core", "cores"), memory(m.Memory), m.Go, "lockport " + m.Lockport}
	has := []bool{true, m.CPU != "", m.Cores > 0, m.Memory > 0, m.Go != "", m.Lockport != ""}
	var all []string
	for i, part := range parts {
		if has[i] {
			all = append(all, part)
		}
	}
	return strings.Join(all, ", ")
}

// subjectTable is what was compared.
func (r *Report) subjectTable() Table {
	t := Table{Head: []string{"", "servers", "how they were set up to be measured"}}
	for _, s := range r.Subjects {
		servers, setup := strings.TrimSpace(s.Servers+" "+s.URL), "–"
		if servers == "" {
			servers = "none"
		}
		if i := slices.IndexFunc(r.Costs, func(c Costs) bool { return c.Subject == s.Name && c.Setup != "" }); i >= 0 {
			setup = r.Costs[i].Setup
		}
		t.Rows = append(t.Rows, []string{capital(r.title(s.Name)), servers, setup})
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
