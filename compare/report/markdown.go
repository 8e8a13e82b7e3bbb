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
	if sections := r.costSections(); len(sections) > 0 {
		p("## Costs")
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
	p("To run it again: `%s`", code(r.command()))
	_, err := io.WriteString(w, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

func (r *Report) markdownHazards(b *strings.Builder, p func(string, ...any)) {
	columns, rows := r.columns(), r.matrix()
	p("## The matrix")
	t := table{head: []string{"hazard"}}
	for _, s := range columns {
		t.head = append(t.head, capital(s.Title))
	}
	for _, m := range rows {
		line := []string{m.ID + " " + m.Title}
		for _, cells := range m.cells {
			var texts []string
			for _, c := range cells {
				text := "– not run"
				if c.NotRun == "" {
					text = fmt.Sprintf("%s (%s)", c.Class, c.seen())
				}
				if c.Variant != "" {
					text = c.Variant + ": " + text
				}
				texts = append(texts, text)
			}
			line = append(line, strings.Join(texts, "\n"))
		}
		t.rows = append(t.rows, line)
	}
	writeMarkdown(b, t)
	p("(k of n): in how many of its runs the harm was seen. What the words mean:")
	for _, l := range looks {
		fmt.Fprintf(b, "- **%s**: %s\n", l.class, l.means)
	}
	b.WriteString("\n")
	p("![The matrix](pictures/matrix.svg)")
	p("## The hazards")
	p("![What the pictures consist of](pictures/legend.svg)")
	for _, m := range rows {
		p("### %s %s", md(m.ID), md(m.Title))
		if m.Happens != "" {
			p("**What happens.** %s", md(m.Happens))
		}
		if m.Do != "" {
			p("**What to do.** %s", md(m.Do))
		}
		if len(m.Articles) > 0 {
			p("Taught, or overlooked, in %s.", md(articles(m.Articles)))
		}
		for _, cells := range m.cells {
			for _, c := range cells {
				r.markdownCell(p, c)
			}
		}
	}
}

func (r *Report) markdownCell(p func(string, ...any), c *Cell) {
	name := md(strings.TrimSpace(capital(r.title(c.Subject)) + " " + c.Variant))
	if c.NotRun != "" {
		p("**%s**: – not run: %s", name, md(c.NotRun))
		return
	}
	p("**%s**: %s, %s. %s", name, md(string(c.Class)), r.runs(c), md(c.Observed))
	var more []string
	for _, text := range []string{c.Setup, c.Lock, lateWrite(c)} {
		if text != "" {
			more = append(more, md(text))
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

func writeMarkdown(b *strings.Builder, t table) {
	line := func(texts []string) {
		b.WriteString("|")
		for _, text := range texts {
			cells := strings.Split(text, "\n")
			for i := range cells {
				cells[i] = md(cells[i])
			}
			b.WriteString(" " + strings.Join(cells, "<br>") + " |")
		}
		b.WriteString("\n")
	}
	line(t.head)
	b.WriteString("|" + strings.Repeat("---|", len(t.head)) + "\n")
	for _, row := range t.rows {
		line(row)
	}
	b.WriteString("\n")
}

// md makes a text safe in a line of Markdown: nothing in it is HTML, a link, or the end of a table's cell.
func md(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "|", `\|`, "*", `\*`, "_", `\_`, "`", "\\`", "[", `\[`, "]", `\]`, `\`, `\\`).
		Replace(strings.Join(strings.Fields(oneLine(text)), " "))
}

// code makes a text safe between single backquotes.
func code(text string) string { return strings.ReplaceAll(oneLine(text), "`", "'") }
