package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const summaryWidth = 100

const summaryLegend = `k/n: seen in k of n runs. -: not run. away: no lock while the fault lasted. busy: waiters keep
the server busy. wrong: a wrong answer. stuck: locked for ever. fenced: two held it, and the token
tells them apart. UNSAFE: two held it, and nothing refused the late write.
`

// Summary is the report in so much text as fits on a terminal of 100 columns: the matrix in short words, and the medians of the costs. A word in
// capitals is that of harm which nothing caught.
func (r *Report) Summary() string {
	var b strings.Builder
	if rows := r.matrix(); len(rows) > 0 && len(r.Cells) > 0 {
		columns := r.columns()
		const perBlock = 8
		for from := 0; from < len(columns); from += perBlock {
			to := min(from+perBlock, len(columns))
			lines := [][]string{{""}}
			for _, s := range columns[from:to] {
				lines[0] = append(lines[0], s.Name)
			}
			for _, m := range rows {
				lines = append(lines, summaryRow(m, from, to)...)
			}
			if from > 0 {
				b.WriteString("\n")
			}
			writeTable(&b, lines, false)
		}
		b.WriteString(summaryLegend)
	}
	if lines := r.summaryOfCosts(); len(lines) > 1 {
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		writeTable(&b, lines, true)
		b.WriteString("Medians. x RTT: a cycle of Acquire and Release against a bare round trip to the same server.\n")
	}
	if b.Len() == 0 {
		return "Nothing was run.\n"
	}
	return b.String()
}

// summaryRow has as many lines as the hazard has cells on one subject.
func summaryRow(m row, from, to int) [][]string {
	var lines [][]string
	deepest := 1
	for _, cells := range m.cells[from:to] {
		deepest = max(deepest, len(cells))
	}
	for i := range deepest {
		line := []string{m.ID}
		if i > 0 {
			line[0] = ""
		}
		for _, cells := range m.cells[from:to] {
			switch {
			case i >= len(cells):
				line = append(line, "")
			case cells[i].NotRun != "":
				line = append(line, "-")
			default:
				line = append(line, fmt.Sprintf("%s %d/%d", lookOf(cells[i].Class).short, cells[i].Seen, cells[i].Of))
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func (r *Report) summaryOfCosts() [][]string {
	lines := [][]string{{"", "acquire", "release", "x RTT", "hand-off", "takeover", "fail-over"}}
	for _, c := range r.Costs {
		line := []string{c.Subject, "-", "-", "-", "-", "-", "-"}
		if y := c.Cycle; y != nil {
			line[1], line[2] = quantile(y.Acquire, y.Acquire.P50, micros), quantile(y.Release, y.Release.P50, micros)
			if y.Ratio.N > 0 {
				line[3] = significant(y.Ratio.Median)
			}
		}
		if h := c.HandOff; h != nil {
			line[4] = quantile(h.Time, h.Time.P50, micros)
		}
		if t := c.Takeover; t != nil {
			line[5] = quantile(t.Time, t.Time.P50, millis)
		}
		if f := c.Failover; f != nil {
			line[6] = quantile(f.Time, f.Time.P50, millis)
		}
		lines = append(lines, line)
	}
	return lines
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
