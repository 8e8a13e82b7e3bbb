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
	"look": lookOf, "anchor": anchorOf, "docs": func() string { return docs },
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

// row is a hazard in the matrix: its cells for each subject, ordered by subject.
type row struct {
	Hazard
	Cells [][]*entry
}

// entry is a cell with its subject's title.
type entry struct {
	*Cell
	Who string
}

// Columns returns the subjects that have a cell.
func (r view) Columns() []Subject {
	return slices.DeleteFunc(slices.Clone(r.Subjects), func(s Subject) bool {
		return !slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Subject == s.Name })
	})
}

// Matrix returns a row for each hazard: a report has only those that it has cells of.
func (r view) Matrix() (rows []row) {
	columns := r.Columns()
	for _, h := range r.Hazards {
		m := row{h, make([][]*entry, len(columns))}
		for i, s := range columns {
			for j := range r.Cells {
				if c := &r.Cells[j]; c.Hazard == h.ID && c.Subject == s.Name {
					m.Cells[i] = append(m.Cells[i], &entry{c, r.Title(s.Name)})
				}
			}
		}
		rows = append(rows, m)
	}
	return rows
}

// Title returns a subject's title.
func (r view) Title(name string) string {
	if i := slices.IndexFunc(r.Subjects, func(s Subject) bool { return s.Name == name && s.Title != "" }); i >= 0 {
		return r.Subjects[i].Title
	}
	return name
}

// All returns its cells, one after another.
func (m row) All() []*entry { return slices.Concat(m.Cells...) }

// Worst returns its cell with the greatest harm; nil without harm.
func (m row) Worst() (worst *entry) {
	for _, e := range m.All() {
		if !e.Class.IsSafe() && (worst == nil || Compare(e.Class, worst.Class) > 0) {
			worst = e
		}
	}
	return worst
}

// Landed says that a late write landed although no two clients believed they held the lock at once: the lock is safe, but what it protects is not.
func (c *Cell) Landed() bool { return c.NotRun == "" && c.LateWrite == "landed" && c.Class != Unsafe }

// shows says that the cell has this class, or a late write that landed.
func (c *Cell) shows(class Class) bool {
	return c.NotRun == "" && c.Class == class || class == lateLanded && c.Landed()
}

// Word is the cell in short.
func (c *Cell) Word() string {
	if c.NotRun != "" {
		return "-"
	}
	return lookOf(c.Class).Short + map[bool]string{true: "*"}[c.Landed()]
}

// Costs are the costs of one subject's locks on this machine.
type Costs struct {
	Subject string `json:"subject"`
	// Setup says what ran: "three etcds, which sync to disk".
	Setup string `json:"setup"`
	// TTL is the locks' TTL, in milliseconds.
	TTL float64 `json:"ttl"`
	// Acquire and Release are those of one client and an uncontended lock, in microseconds.
	Acquire Quantiles `json:"acquire,omitzero"`
	Release Quantiles `json:"release,omitzero"`
	// HandOff is the time from a release until Acquire returns in another, waiting process, in microseconds.
	HandOff Quantiles `json:"hand_off,omitzero"`
	// Takeover is the time from the kill -9 of a holder's process until a waiting process has the lock, in milliseconds.
	Takeover Quantiles `json:"takeover,omitzero"`
	// NotRun says why a scenario has no figures: "takeover": "it failed: …".
	NotRun map[string]string `json:"not_run,omitempty"`
}

// figure is a cell of the table of costs: the figure, and details in parentheses.
type figure struct{ Text, More string }

// Head returns the column titles of the table of costs.
func (r view) Head() []string {
	return []string{"", "Acquire", "Release", "hand-off", "takeover"}
}

// Figures is a subject's row of the table of costs: medians, and details such as the 99th percentile.
func (r view) Figures(c Costs) []figure {
	micros := func(q Quantiles) figure { return median(q, Micros, "99 %: "+Micros(q.P99)) }
	takeover := "most " + Millis(c.Takeover.Max) + ", TTL " + Millis(c.TTL)
	return []figure{{r.Title(c.Subject), ""}, micros(c.Acquire), micros(c.Release), micros(c.HandOff), median(c.Takeover, Millis, takeover)}
}

// median shows the median of q, or a dash without samples.
func median(q Quantiles, text func(float64) string, more string) figure {
	if q.N == 0 {
		return figure{"–", ""}
	}
	return figure{text(q.P50), more}
}
