package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"
)

//go:embed templates/report.html.tmpl templates/style.css
var templates embed.FS

var page = template.Must(template.New("report.html.tmpl").Funcs(template.FuncMap{
	"look":      lookOf,
	"plural":    plural,
	"list":      list,
	"articles":  articles,
	"lateWrite": lateWrite,
	"capital":   capital,
	"add":       func(a, b int) int { return a + b },
}).ParseFS(templates, "templates/report.html.tmpl"))

// mostRuns is how many runs of a cell are drawn; the others are told in words.
const mostRuns = 3

// HTML writes the report as one HTML file, which opens offline: all is in it, it asks nothing of any network, and it needs no script.
func (r *Report) HTML(w io.Writer) error {
	v, err := r.view()
	if err != nil {
		return err
	}
	var b strings.Builder
	if err := page.Execute(&b, v); err != nil {
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

// view is what the template shows. Its drawings and styles are our own, with every text from the report escaped.
type view struct {
	*Report
	Style, Defs          template.CSS
	Definitions          template.HTML
	Heading, About, Made string
	Mode, When, Took     string
	On, Command, Docs    string
	Findings             []findingView
	NotMeasured          []string
	Missing              []missingView
	Looks                []lookView
	Columns              []Subject
	Rows                 []rowView
	Legend               template.HTML
	Sections             []sectionView
	Ran                  tableView
}

type findingView struct {
	Key, Word, Text string
	Items           []string
}

type missingView struct{ Titles, Program, Install string }

type lookView struct{ Key, Word, Means string }

type rowView struct {
	Hazard
	Anchor string
	Cells  []cellsView
}

type cellsView struct {
	Subject Subject
	Cells   []cellView
}

type cellView struct {
	*Cell
	Anchor, Key, Word, Often, Title string
	Open                            bool
	First                           *playView // of the run that shows the class
	Others                          []playView
	Untold                          int // runs that are not drawn
}

type playView struct {
	Caption string
	Drawing template.HTML
}

type sectionView struct {
	ID, Title, About string
	Drawing          template.HTML
	Table            tableView
}

type tableView struct {
	Head []string
	Rows [][]string
}

func (r *Report) view() (*view, error) {
	style, err := templates.ReadFile("templates/style.css")
	if err != nil {
		return nil, err
	}
	v := &view{
		Report: r, Style: template.CSS(coloursCSS + drawingCSS + string(style)), Definitions: template.HTML(defsSVG),
		Heading: r.heading(), About: r.about(), Mode: r.mode(), When: r.began(), Took: seconds(r.Seconds), On: r.machine(),
		Command: r.command(), Docs: docs, NotMeasured: r.notMeasured(), Columns: r.columns(),
		Ran: tableView{r.subjectTable().head, r.subjectTable().rows},
	}
	for _, f := range r.findings() {
		found := findingView{Text: f.sentence(), Items: f.items}
		if f.class != "" {
			found.Key, found.Word = lookOf(f.class).key, string(f.class)
		}
		v.Findings = append(v.Findings, found)
	}
	for _, m := range r.Missing {
		v.Missing = append(v.Missing, missingView{list(r.titles(m.Subjects)), m.Program, m.Install})
	}
	for _, l := range looks {
		v.Looks = append(v.Looks, lookView{l.key, string(l.class), l.means})
	}
	if len(r.Cells) > 0 {
		v.Legend = timelineLegend().html()
		for _, m := range r.matrix() {
			v.Rows = append(v.Rows, r.rowView(m, v.Columns))
		}
	}
	for _, s := range r.costSections() {
		v.Sections = append(v.Sections, sectionView{s.id, s.title, s.about, s.picture.html(), tableView{s.table.head, s.table.rows}})
	}
	return v, nil
}

func (r *Report) rowView(m row, columns []Subject) rowView {
	v := rowView{Hazard: m.Hazard, Anchor: anchorOf(m.ID)}
	var worst *Cell
	for i, cells := range m.cells {
		group := cellsView{Subject: columns[i]}
		for _, c := range cells {
			group.Cells = append(group.Cells, r.cellView(c))
			if c.NotRun == "" && harmed(c.Class) && (worst == nil || severity(c.Class) > severity(worst.Class)) {
				worst = c
			}
		}
		v.Cells = append(v.Cells, group)
	}
	for i := range v.Cells { // the picture that says most is open
		for j := range v.Cells[i].Cells {
			v.Cells[i].Cells[j].Open = worst != nil && v.Cells[i].Cells[j].Cell == worst
		}
	}
	return v
}

func (r *Report) cellView(c *Cell) cellView {
	l := lookOf(c.Class)
	v := cellView{Cell: c, Anchor: c.ID(), Key: l.key, Word: string(c.Class), Often: c.seen(), Title: r.title(c.Subject)}
	order := []int{}
	if best := c.best(); best >= 0 {
		order = append(order, best)
		for i := range c.Runs {
			if i != best {
				order = append(order, i)
			}
		}
	}
	for _, i := range order[:min(len(order), mostRuns)] {
		caption := ""
		if len(c.Runs) > 1 {
			caption = fmt.Sprintf("Run %d of %d: %s.", i+1, len(c.Runs), c.Runs[i].Class)
			if c.Runs[i].Observed != c.Observed {
				caption += " " + c.Runs[i].Observed
			}
		}
		v.Others = append(v.Others, playView{caption, r.timelinePicture(c, i).html()})
	}
	if len(v.Others) > 0 {
		v.First, v.Others = &v.Others[0], v.Others[1:]
	}
	v.Untold = max(0, len(order)-mostRuns)
	return v
}

// html is the picture in both widths, of which the page shows the one that fits.
func (p *picture) html() template.HTML {
	if p == nil {
		return ""
	}
	var b strings.Builder
	b.WriteString(p.wide.inline("wide", p.title, p.desc))
	b.WriteString(p.narrow.inline("narrow", p.title, p.desc))
	return template.HTML(b.String())
}
