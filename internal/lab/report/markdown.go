package report

import (
	"fmt"
	"io"
	"strings"
)

// Markdown writes the report as Markdown, whose pictures are those of [Report.Pictures] in a folder "pictures" beside it.
func (r *Report) Markdown(w io.Writer) error {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n\n", args...) }
	p("# %s", r.heading())
	p("%s", md(r.about()))
	p("%s", md(r.ran()))
	for _, m := range r.Missing {
		p("Not installed: `%s`, so that some of %s could not be run. To install it: `%s`", code(m.Program), md(list(r.titles(m.Subjects))), code(m.Install))
	}
	if found := r.findings(); len(found) > 0 {
		p("## In short")
		for _, f := range found {
			fmt.Fprintf(&b, "- %s\n", md(f.sentence()))
			for _, item := range f.items {
				fmt.Fprintf(&b, "  - %s\n", md(item))
			}
		}
		b.WriteString("\n")
	}
	if len(r.Cells) > 0 {
		r.markdownHazards(&b, p)
	}
	if r.taught() {
		p("## The articles")
		p("%s More is told of them under [the locks of the articles](%stesting.md#the-locks-of-the-articles).", aboutLessons, docs)
		writeMarkdown(&b, lessonTable())
	}
	if sections := r.costSections(); len(sections) > 0 {
		p("## Costs")
		p("A ratio is to the smallest question that can be asked of the same server, measured in turns with it in the same run. In brackets stand the least and the greatest of the turns. %s",
			r.where())
		for _, s := range sections {
			p("### %s", s.title)
			p("%s", s.about)
			if s.picture != nil {
				p("![%s](pictures/%s.svg)", md(s.picture.title), s.picture.name)
			}
			writeMarkdown(&b, s.table)
		}
		for _, line := range r.notMeasured() {
			fmt.Fprintf(&b, "- not measured: %s\n", md(line))
		}
		b.WriteString("\n")
	}
	p("## What ran")
	writeMarkdown(&b, r.subjectTable())
	p("%s", md(r.machine()))
	for _, text := range r.how() {
		p("%s", text)
	}
	p("To run it again: `%s`", code(r.command()))
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

func (r *Report) markdownHazards(b *strings.Builder, p func(string, ...any)) {
	columns, rows := r.columns(), r.matrix()
	p("## The matrix")
	t := table{head: []string{"hazard"}}
	var lines [][]string // as Markdown
	for _, s := range columns {
		t.head = append(t.head, capital(s.Title))
	}
	for _, m := range rows {
		line := []string{fmt.Sprintf("[%s](#%s) %s", md(m.ID), anchorOf(m.ID), md(m.Title))}
		for _, cells := range m.cells {
			var texts []string
			for _, c := range shown(cells) {
				text := fmt.Sprintf("[– not run](#%s)", c.ID())
				if c.NotRun == "" {
					text = fmt.Sprintf("[%s](#%s) (%s)", md(string(c.Class)), c.ID(), c.seen())
				}
				if c.landed() {
					text += ", **" + lateLanded + "**"
				}
				if c.Variant != "" {
					text = md(c.Variant) + ": " + text
				}
				texts = append(texts, text)
			}
			line = append(line, strings.Join(texts, "<br>"))
		}
		lines = append(lines, line)
	}
	writeMarkdown(b, t)
	writeRows(b, lines)
	p("(k of n): in how many of its runs the harm was seen. What the words mean:")
	for _, l := range looks {
		fmt.Fprintf(b, "- **%s**: %s\n", l.class, l.means)
	}
	if r.landed() {
		fmt.Fprintf(b, "- **%s**: %s\n", lateLanded, meansLanded)
	}
	b.WriteString("\n")
	p("![The matrix](pictures/matrix.svg)")
	p("## The hazards")
	p("![What the pictures consist of](pictures/legend.svg)")
	for _, m := range rows {
		p("%s\n\n### %s %s", mark(anchorOf(m.ID)), md(m.ID), md(m.Title))
		if m.Happens != "" {
			p("**What happens.** %s", md(m.Happens))
		}
		if m.Do != "" {
			p("**What to do.** %s", md(m.Do))
		}
		if len(m.Articles) > 0 {
			p("Taught, or overlooked, in %s.", linkedMarkdown(m.Articles))
		}
		for _, cells := range m.cells {
			for _, c := range cells {
				r.markdownCell(p, c)
			}
		}
	}
}

func (r *Report) markdownCell(p func(string, ...any), c *Cell) {
	name := md(capital(r.title(c.Subject)))
	if c.Variant != "" {
		name += " (" + md(c.Variant) + ")"
	}
	if c.NotRun != "" {
		p("%s**%s**: – not run: %s", mark(c.ID()), name, md(c.NotRun))
		return
	}
	late := ""
	if c.landed() {
		late = ", and a late write landed"
	}
	p("%s**%s**: %s, %s%s. %s", mark(c.ID()), name, md(string(c.Class)), r.runs(c), late, md(c.Observed))
	var more []string
	for _, part := range [][2]string{{"What was done: ", c.Setup}, {"The lock: ", c.Lock}, {"", lateWrite(c)}} {
		if part[1] != "" {
			more = append(more, part[0]+md(part[1]))
		}
	}
	if len(more) > 0 {
		p("%s", strings.Join(more, "  \n"))
	}
	if c.best() >= 0 {
		p("![Who held the lock when](pictures/%s.svg)", c.ID())
	}
}

func lateWrite(c *Cell) string {
	switch c.LateWrite {
	case "":
		return ""
	case "refused":
		return "The late write of the older holder was refused."
	case "landed":
		return "The late write of the older holder landed."
	}
	return "The late write of the older holder: " + c.LateWrite
}

// mark is a place to which links lead.
func mark(id string) string { return `<a id="` + id + `"></a>` }

// writeMarkdown writes a table, and nothing behind it if it has no rows yet.
func writeMarkdown(b *strings.Builder, t table) {
	writeLine(b, each(t.head, md))
	b.WriteString("|" + strings.Repeat("---|", len(t.head)) + "\n")
	var lines [][]string
	for i, row := range t.rows {
		line := each(row, md)
		if i < len(t.ids) && len(line) > 0 {
			line[0] = mark(t.ids[i]) + line[0]
		}
		lines = append(lines, line)
	}
	if len(lines) > 0 {
		writeRows(b, lines)
	}
}

// writeRows writes lines of a table, of texts that are Markdown, and ends the table.
func writeRows(b *strings.Builder, lines [][]string) {
	for _, line := range lines {
		writeLine(b, line)
	}
	b.WriteString("\n")
}

func writeLine(b *strings.Builder, cells []string) {
	b.WriteString("| " + strings.Join(cells, " | ") + " |\n")
}

func each(texts []string, f func(string) string) (all []string) {
	for _, text := range texts {
		all = append(all, f(text))
	}
	return all
}

// md makes a text safe in a line of Markdown: nothing in it is HTML, a link, or the end of a table's cell.
func md(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, `\`, `\\`).
		Replace(strings.Join(strings.Fields(oneLine(text)), " "))
}

// code makes a text safe between single backquotes.
func code(text string) string { return strings.ReplaceAll(oneLine(text), "`", "'") }
