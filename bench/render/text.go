// Package render makes tables and pictures of results, and puts them into a page.
package render

import (
	"fmt"
	"math"
	"strings"

	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/internal/lab/report"
)

// Text is a table in Markdown for each scenario.
func Text(r *result.Results) string {
	var b strings.Builder
	for _, s := range r.Scenarios {
		fmt.Fprintf(&b, "## %s, %s: %s\n\n%s\n", s.Family, s.Name, s.Title, Table(s))
	}
	return b.String()
}

// headlines are the figures whose ratios are shown, by the beginning of a scenario's name.
var headlines = []struct{ scenario, figure string }{
	{"cycle", "p50"}, {"own-", "cycles"}, {"contend-", "hand-offs"}, {"handoff-", "p50"}, {"mixed-", "its share"}, {"queue-", "p50"}, {"waiters-", "requests"}, {"held-", "requests"}, {"takeover", "p50"},
}

// headline is the figure that a scenario is about.
func headline(s result.Scenario) string {
	for _, h := range headlines {
		if strings.HasPrefix(s.Name, h.scenario) {
			return h.figure
		}
	}
	return ""
}

// Table is one scenario as a table in Markdown: a row for each library, a column for each figure's median, and one for the ratios of the figure that it is
// about to each reference: the median of the turns, and what they gave at least and at most.
func Table(s result.Scenario) string {
	var columns []result.Figure
	for _, row := range s.Rows {
		if len(row.Figures) > len(columns) {
			columns = row.Figures
		}
	}
	about := headline(s)
	references := referencesOf(s, about)
	head, line := []string{""}, []string{"---"}
	for _, c := range columns {
		head, line = append(head, strings.TrimSpace(c.Name+" "+c.Unit)), append(line, "---:")
	}
	for _, r := range references {
		head, line = append(head, about+": × "+r.Library), append(line, "---:")
	}
	var b strings.Builder
	write := func(cells []string) { b.WriteString("| " + strings.Join(cells, " | ") + " |\n") }
	write(head)
	write(line)
	var notes []string
	for _, row := range s.Rows {
		cells := []string{row.Library}
		for _, c := range columns {
			text := ""
			if f, ok := row.Figure(c.Name); ok {
				text = Number(f.Spread().Median)
			}
			cells = append(cells, text)
		}
		for _, r := range references {
			text := ""
			if r.Library != row.Library {
				text = ratio(row.Ratio(about, r))
			}
			cells = append(cells, text)
		}
		write(cells)
		if row.NotRun != "" {
			notes = append(notes, row.Library+": "+row.NotRun+".")
		}
		if n := len(row.Failed); n > 0 {
			notes = append(notes, fmt.Sprintf("%s: turns that failed: %d, such as %s.", row.Library, n, row.Failed[0]))
		}
	}
	if len(notes) > 0 {
		b.WriteString("\n" + strings.Join(notes, " ") + "\n")
	}
	return b.String()
}

// pings is the library that takes no locks.
const pings = "PING twice"

// referencesOf are the rows that others are compared with: lockport's own, and the first of the bare commands that take a lock.
func referencesOf(s result.Scenario, figure string) (rows []result.Row) {
	kinds := map[string]bool{"ours": true, "floor": true}
	for _, row := range s.Rows {
		if _, ok := row.Figure(figure); ok && kinds[row.Kind] && row.Library != pings && len(s.Rows) > 1 {
			rows = append(rows, row)
			delete(kinds, row.Kind)
		}
	}
	return rows
}

func ratio(s report.Spread) string {
	switch {
	case s.N == 0:
		return ""
	case s.Low == s.High:
		return Number(s.Median)
	}
	return fmt.Sprintf("%s (%s to %s)", Number(s.Median), Number(s.Low), Number(s.High))
}

// Number is n with two or three digits that count, and commas.
func Number(n float64) string {
	if math.Abs(n) < 100 {
		if n == math.Trunc(n) {
			return fmt.Sprint(n)
		}
		if math.Abs(n) < 0.01 {
			return fmt.Sprintf("%.2g", n)
		}
		digits := 2 - int(math.Floor(math.Log10(math.Abs(n))))
		return fmt.Sprintf("%.*f", digits, n)
	}
	whole := fmt.Sprintf("%.0f", math.Abs(n))
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if n < 0 {
		return "-" + whole
	}
	return whole
}
