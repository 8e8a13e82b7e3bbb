package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"
)

//go:embed templates/report.html.tmpl templates/style.css
var templates embed.FS

var page = template.Must(template.New("report.html.tmpl").Funcs(template.FuncMap{
	"articles":  linkedHTML,
	"lateWrite": lateWrite,
	"capital":   capital,
	"stop":      fullStop,
}).ParseFS(templates, "templates/report.html.tmpl"))

// mostRuns is how many runs of a cell are drawn: one that shows its class, and others of other classes. More of the same are told in words.
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
	Style, Defs       template.CSS
	Definitions       template.HTML
	Heading, About    string
	Where             string   // the costs were measured
	How               []string // all was
	Mode, When, Took  string
	On, Command, Docs string
	Findings          []findingView
	NotMeasured       []string
	Missing           []missingView
	Looks             []lookView
	Columns           []Subject
	Rows              []rowView
	Legend            template.HTML
	Sections          []sectionView
	Ran               tableView
	Lessons           *tableView
	AboutLessons      string
}

type findingView struct {
	Key, Word, Text string
	Landed          string // what is said of late writes beside the class
	Items           []string
}

type missingView struct{ Titles, Program, Install string }

type lookView struct{ Key, Word, Landed, Means string }

type rowView struct {
	Hazard
	Anchor string
	Cells  []cellsView
}

type cellsView struct {
	Subject Subject
	Cells   []cellView
	Shown   []cellView // those in the matrix
}

type cellView struct {
	*Cell
	Anchor, Key, Word, Often, Title string
	Landed                          string // what is said of late writes beside the class
	Open                            bool
	First                           *playView // of the run that shows the class
	Others                          []playView
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
	Rows []tableRow
}

type tableRow struct {
	ID    string
	Cells []string
}

func tableViewOf(t table) *tableView {
	v := &tableView{Head: t.head}
	for i, cells := range t.rows {
		line := tableRow{Cells: cells}
		if i < len(t.ids) {
			line.ID = t.ids[i]
		}
		v.Rows = append(v.Rows, line)
	}
	return v
}

func (r *Report) view() (*view, error) {
	style, err := templates.ReadFile("templates/style.css")
	if err != nil {
		return nil, err
	}
	v := &view{
		Report: r, Style: template.CSS(coloursCSS + drawingCSS + string(style)), Definitions: template.HTML(defsSVG),
		Heading: r.heading(), About: r.about(), Where: r.where(), How: r.how(), Mode: r.mode(), When: r.began(), Took: seconds(r.Seconds), On: r.machine(),
		Command: r.command(), Docs: docs, NotMeasured: r.notMeasured(), Columns: r.columns(),
		Ran: *tableViewOf(r.subjectTable()),
	}
	for _, f := range r.findings() {
		found := findingView{Text: f.sentence(), Items: f.items}
		if f.class != "" {
			found.Key, found.Word = lookOf(f.class).key, string(f.class)
			if f.late {
				found.Landed = lateLanded
			}
		}
		v.Findings = append(v.Findings, found)
	}
	for _, m := range r.Missing {
		v.Missing = append(v.Missing, missingView{list(r.titles(m.Subjects)), m.Program, m.Install})
	}
	for _, l := range looks {
		v.Looks = append(v.Looks, lookView{l.key, string(l.class), "", l.means})
	}
	if r.landed() {
		v.Looks = append(v.Looks, lookView{looks[0].key, string(looks[0].class), lateLanded, meansLanded})
	}
	if r.taught() {
		v.Lessons, v.AboutLessons = tableViewOf(lessonTable()), aboutLessons
	}
	if len(r.Cells) > 0 {
		v.Legend = timelineLegend().html()
		for _, m := range r.matrix() {
			v.Rows = append(v.Rows, r.rowView(m, v.Columns))
		}
	}
	for _, s := range r.costSections() {
		v.Sections = append(v.Sections, sectionView{s.id, s.title, s.about, s.picture.html(), *tableViewOf(s.table)})
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
			if slices.Contains(shown(cells), c) {
				group.Shown = append(group.Shown, group.Cells[len(group.Cells)-1])
			}
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
	if c.landed() {
		v.Landed = lateLanded
	}
	best := c.best()
	if best < 0 {
		return v
	}
	v.First = &playView{r.caption(c, best), r.timelinePicture(c, best).html()}
	drawn := 1
	for i := range c.Runs {
		if i == best {
			continue
		}
		other := playView{Caption: r.caption(c, i)}
		if c.Runs[i].Class != c.Class && drawn < mostRuns {
			other.Drawing = r.timelinePicture(c, i).html()
			drawn++
		}
		v.Others = append(v.Others, other)
	}
	return v
}

// caption says which run of several it is, what was seen in it, and what happened if that is not said above.
func (r *Report) caption(c *Cell, run int) string {
	if len(c.Runs) < 2 {
		return ""
	}
	text := fmt.Sprintf("Run %d of %d: %s.", run+1, len(c.Runs), c.Runs[run].Class)
	if c.Runs[run].Observed != c.Observed {
		text += " " + c.Runs[run].Observed
	}
	return text
}

// html is the picture in both widths, of which the page shows the one that fits.
func (p *picture) html() template.HTML {
	if p == nil {
		return ""
	}
	var b strings.Builder
	about := p.title
	if p.desc != "" {
		about += ". " + p.desc
	}
	b.WriteString(`<div role="img" aria-label="` + escape(about) + `">` + p.wide.inline("wide") + p.narrow.inline("narrow") + `</div>`)
	return template.HTML(b.String())
}
