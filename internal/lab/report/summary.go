package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const summaryWidth = 100

// Summary is the report in so much text as fits on a terminal of 100 columns: the matrix in short words, and the medians of the costs. A word in
// capitals is that of harm which nothing caught.
func (r *Report) Summary() string {
	var b strings.Builder
	if rows := r.matrix(); len(rows) > 0 && len(r.Cells) > 0 {
		r.summaryOfHazards(&b, rows)
	}
	if len(r.Costs) > 0 {
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		lines := [][]string{{"medians", "Acquire", "Release", "round trips", "hand-off", "takeover", "without a server"}}
		for i := range r.Costs {
			c := &r.Costs[i]
			lines = append(lines, append([]string{c.Subject}, c.medians("-", func(v float64) string { return significant(v) + " x" })...))
		}
		writeTable(&b, lines, true)
		b.WriteString(summaryOfCostsLegend)
	}
	if b.Len() == 0 {
		return "Nothing was run.\n"
	}
	return b.String()
}

const summaryOfCostsLegend = `
round trips       Acquire and Release together, against the smallest question to the same server
hand-off          from a release until a waiter in another process has the lock
takeover          from the kill of a holder's process until a waiter has its lock
without a server  for how long a client had no lock when a server was lost
`

// summaryMeanings say what the short words of classes mean.
var summaryMeanings = map[Class]string{
	Unavailable: "nobody could have the lock while the fault lasted, and nothing was lost",
	Costly:      "who waits keeps the server busy",
	Misled:      "a caller was told what was not so",
	Stuck:       "locked for ever",
	Fenced:      "two believed to hold the lock; their tokens told them apart, and the late write was refused",
	Unsafe:      "two believed to hold the lock, and nothing refused the late write",
}

// summaryLegend explains the words that the matrix has.
func (r *Report) summaryLegend() [][]string {
	lines := [][]string{{"k/n", "the harm was seen in k of n runs; -: not run"}}
	for _, class := range Classes() {
		if text := summaryMeanings[class]; text != "" && slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Class == class }) {
			lines = append(lines, []string{lookOf(class).short, text})
		}
	}
	if r.landed() {
		lines = append(lines, []string{"*", "and yet a late write landed"})
	}
	return lines
}

// summaryOfHazards writes the matrix: a row for each hazard, below it what further variants there are, and what the words mean.
func (r *Report) summaryOfHazards(b *strings.Builder, rows []row) {
	columns := r.columns()
	const perBlock = 8
	for from := 0; from < len(columns); from += perBlock {
		to := min(from+perBlock, len(columns))
		lines := [][]string{{""}}
		for _, s := range columns[from:to] {
			lines[0] = append(lines[0], s.Name)
		}
		var below []string // of each line but the first
		for _, m := range rows {
			line, more := summaryRow(m, columns, from, to)
			lines, below = append(lines, line), append(below, more)
		}
		if from > 0 {
			b.WriteString("\n")
		}
		var t strings.Builder
		writeTable(&t, lines, false)
		for i, line := range strings.SplitAfter(t.String(), "\n") {
			if b.WriteString(line); i > 0 && i <= len(below) {
				b.WriteString(below[i-1])
			}
		}
	}
	b.WriteString("\n")
	writeTitles(b, rows)
	b.WriteString("\n")
	writeTable(b, r.summaryLegend(), false)
}

// summaryRow is a line of the matrix, with the first cell of each subject that a matrix shows, and lines about the other ones.
func summaryRow(m row, columns []Subject, from, to int) (line []string, below string) {
	line = []string{m.ID}
	type group struct {
		variant string
		words   []string            // in the order in which they come
		where   map[string][]string // by word
	}
	var groups []*group
	for i, cells := range m.cells[from:to] {
		cells = shown(cells)
		if len(cells) == 0 {
			line = append(line, "")
			continue
		}
		line = append(line, cells[0].word())
		for _, c := range cells[1:] {
			at := slices.IndexFunc(groups, func(g *group) bool { return g.variant == c.Variant })
			if at < 0 {
				at = len(groups)
				groups = append(groups, &group{c.Variant, nil, make(map[string][]string)})
			}
			g, word := groups[at], c.word()
			if g.where[word] == nil {
				g.words = append(g.words, word)
			}
			g.where[word] = append(g.where[word], columns[from+i].Name)
		}
	}
	for _, g := range groups {
		var parts []string
		for _, word := range g.words {
			parts = append(parts, strings.Join(g.where[word], ", ")+" "+word)
		}
		below += indented(g.variant+": "+strings.Join(parts, "; "), 5)
	}
	return line, below
}

// word is a cell in short.
func (c *Cell) word() string {
	if c.NotRun != "" {
		return "-"
	}
	word := lookOf(c.Class).short
	if c.landed() {
		word += "*"
	}
	return fmt.Sprintf("%s %d/%d", word, c.Seen, c.Of)
}

// indented is text in lines that begin with so many spaces.
func indented(text string, by int) string {
	var b strings.Builder
	line := ""
	for _, word := range strings.Fields(oneLine(text)) {
		word = cut(word, summaryWidth-by)
		if line != "" && by+utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > summaryWidth {
			b.WriteString(strings.Repeat(" ", by) + line + "\n")
			line = ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return b.String() + strings.Repeat(" ", by) + line + "\n"
}

// writeTitles writes what the hazards are.
func writeTitles(b *strings.Builder, rows []row) {
	var lines [][]string
	for _, m := range rows {
		lines = append(lines, []string{m.ID, m.Title})
	}
	writeTable(b, lines, false)
}

// writeTable writes lines with their columns below each other, in no more than summaryWidth columns: where they need more, the widest are cut.
func writeTable(b *strings.Builder, lines [][]string, right bool) {
	widths := make([]int, len(lines[0]))
	for _, line := range lines {
		for i, text := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(oneLine(text)))
		}
	}
	for total(widths) > summaryWidth {
		widest := slices.Index(widths, slices.MaxFunc(widths, cmp.Compare))
		widths[widest]--
	}
	for _, line := range lines {
		var out strings.Builder
		for i, text := range line {
			text = cut(oneLine(text), widths[i])
			space := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(text))
			if right && i > 0 {
				text, space = space, text
			}
			if i > 0 {
				out.WriteString("  ")
			}
			out.WriteString(text + space)
		}
		b.WriteString(strings.TrimRight(out.String(), " ") + "\n")
	}
}

func total(widths []int) int {
	sum := 2 * (len(widths) - 1)
	for _, w := range widths {
		sum += w
	}
	return sum
}

func cut(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return string(runes[:max(0, width-1)]) + "…"
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
