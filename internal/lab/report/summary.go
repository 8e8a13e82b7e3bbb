package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const summaryWidth = 100

// Summary is the report as text for a terminal of 100 columns: the matrix in short words, and the medians of the costs. A word in capitals is that of
// harm which nothing caught.
func (r *Report) Summary() string {
	var b strings.Builder
	columns, rows := r.columns(), r.rows()
	for from := 0; from < len(columns); from += 8 {
		to := min(from+8, len(columns))
		head := []string{""}
		for _, s := range columns[from:to] {
			head = append(head, s.Name)
		}
		lines := [][]string{head}
		for _, m := range rows {
			lines = append(lines, summaryRow(m, columns, from, to)...)
		}
		b.WriteString(aligned(lines) + "\n")
	}
	if len(rows) > 0 {
		var titles [][]string
		for _, m := range rows {
			titles = append(titles, []string{m.ID, m.Title})
		}
		b.WriteString(aligned(titles) + "\n" + aligned(r.summaryLegend()))
	}
	if len(r.Costs) > 0 {
		lines := [][]string{{"medians"}}
		for _, m := range metrics {
			lines[0] = append(lines[0], strings.TrimPrefix(m.head, "both, in "))
		}
		for i := range r.Costs {
			lines = append(lines, append([]string{r.Costs[i].Subject}, r.Costs[i].medians("-")...))
		}
		b.WriteString(strings.Repeat("\n", min(1, b.Len())) + aligned(lines) + summaryOfCosts)
	}
	if b.Len() == 0 {
		return "Nothing was run.\n"
	}
	return b.String()
}

const summaryOfCosts = `
round trips       Acquire and Release together, relative to the shortest request to the same server
hand-off          from a release until a waiter in another process has the lock
takeover          from the kill of a holder's process until a waiter has its lock
without a server  how long a client had no lock when a server was lost
`

// summaryLegend explains the words that the matrix has.
func (r *Report) summaryLegend() [][]string {
	lines := [][]string{{"k/n", "the harm was seen in k of n runs; -: not run"}}
	for _, l := range looks[1:] {
		if slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Class == l.Class }) {
			lines = append(lines, []string{l.Short, l.Means})
		}
	}
	if r.landed() {
		lines = append(lines, []string{"*", "and yet a late write landed"})
	}
	return lines
}

// summaryRow is a line of the matrix with the first cell of each subject, and a line of its own for each further variant.
func summaryRow(m row, columns []Subject, from, to int) [][]string {
	line := []string{m.ID}
	var variants []string
	where := make(map[string][]string)
	for i, cells := range m.Cells[from:to] {
		cells = shown(cells)
		if len(cells) == 0 {
			line = append(line, "")
			continue
		}
		line = append(line, cells[0].word())
		for _, c := range cells[1:] {
			if where[c.Variant] == nil {
				variants = append(variants, c.Variant)
			}
			where[c.Variant] = append(where[c.Variant], columns[from+i].Name+" "+c.word())
		}
	}
	all := [][]string{line}
	for _, v := range variants {
		for i, some := range slices.Collect(slices.Chunk(where[v], 5)) {
			head := map[bool]string{true: v + ": "}[i == 0]
			all = append(all, []string{"     " + head + strings.Join(some, ", ")})
		}
	}
	return all
}

// word is a cell in short.
func (c *Cell) word() string {
	if c.NotRun != "" {
		return "-"
	}
	return fmt.Sprintf("%s%s %d/%d", lookOf(c.Class).Short, map[bool]string{true: "*"}[c.Landed()], c.Seen, c.Of)
}

// aligned is lines with their columns below each other, cut to summaryWidth. A line of one cell is no part of the columns.
func aligned(lines [][]string) string {
	var widths []int
	for _, line := range lines {
		for i, text := range line {
			if i >= len(widths) {
				widths = append(widths, 0)
			}
			if len(line) > 1 {
				widths[i] = min(max(widths[i], utf8.RuneCountInString(oneLine(text))), summaryWidth*4/5)
			}
		}
	}
	var b strings.Builder
	for _, line := range lines {
		var out strings.Builder
		for i, text := range line {
			if fmt.Fprint(&out, oneLine(text)); len(line) > 1 {
				out.WriteString(strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(oneLine(text)))+2))
			}
		}
		b.WriteString(cut(strings.TrimRight(out.String(), " "), summaryWidth) + "\n")
	}
	return b.String()
}

func cut(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}

// oneLine is text without what moves a terminal's cursor.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, text)
}
