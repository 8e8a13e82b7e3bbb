package report

import (
	"fmt"
	"slices"
	"strings"
)

// Summary is the report as text for a terminal of 100 columns: the matrix in short words, and the medians of the costs. A word in capitals is that of
// harm which nothing caught.
func (r *Report) Summary() string {
	var b strings.Builder
	line := func(format string, args ...any) {
		b.WriteString(cut(strings.TrimRight(oneLine(fmt.Sprintf(format, args...)), " "), 100) + "\n")
	}
	rows, columns := r.rows(), r.columns()
	if len(rows) > 0 {
		var names strings.Builder
		for _, s := range columns {
			fmt.Fprintf(&names, "%-11.11s ", s.Name)
		}
		line("     %s", names.String())
		for _, m := range rows {
			words, variants := summaryRow(m.Cells)
			line("%-4.4s %s", m.ID, words)
			for _, v := range variants {
				line("     %s", v)
			}
		}
		line("")
		for _, m := range rows {
			line("%-4s %s", m.ID, m.Title)
		}
		line("")
		line("%-6s %s", "k/n", "the harm was seen in k of n runs; -: not run")
		for _, l := range looks[1:] {
			if slices.ContainsFunc(r.Cells, func(c Cell) bool { return c.Class == l.Class }) {
				line("%-6s %s", l.Short, l.Means)
			}
		}
		if r.landed() {
			line("%-6s %s", "*", "and yet a late write landed")
		}
	}
	if len(r.Costs) > 0 {
		if len(rows) > 0 {
			line("")
		}
		const columns = "%-11.11s %-11.11s %-11.11s %-11.11s %-11.11s %-11.11s %s"
		line(columns, "medians", "Acquire", "Release", "round trips", "hand-off", "takeover", "without a server")
		for _, c := range r.Costs {
			m := c.medians()
			line(columns, c.Subject, m[0], m[1], m[2], m[3], m[4], m[5])
		}
		b.WriteString(summaryOfCosts)
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

// summaryRow is the first cell of each subject in a row of the matrix, and a line for each further variant.
func summaryRow(row [][]*entry) (words string, lines []string) {
	var variants []string
	where := make(map[string][]string)
	for _, cells := range row {
		word := ""
		for i, e := range shown(cells) {
			if i == 0 {
				word = e.word()
				continue
			}
			if where[e.Variant] == nil {
				variants = append(variants, e.Variant)
			}
			where[e.Variant] = append(where[e.Variant], e.Subject+" "+e.word())
		}
		words += fmt.Sprintf("%-11.11s ", word)
	}
	for _, v := range variants {
		head := v + ": "
		for some := range slices.Chunk(where[v], 5) {
			lines = append(lines, head+strings.Join(some, ", "))
			head = ""
		}
	}
	return words, lines
}

// word is a cell in short.
func (c *Cell) word() string {
	if c.NotRun != "" {
		return "-"
	}
	return fmt.Sprintf("%s%s %d/%d", lookOf(c.Class).Short, map[bool]string{true: "*"}[c.Landed()], c.Seen, c.Of)
}
