package page

import (
	_ "embed"
	"fmt"
	"math"
	"slices"
	"strings"
	"text/template"

	"github.com/lockport/lockport/bench/lib"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
)

//go:embed page.md.tmpl
var text string

var page = template.Must(template.New("page").Parse(text))

// Text returns what docs/benchmarks.md says of the runs, by family. whole: with every figure of every scenario, instead of the headlines.
func Text(runs map[string]*Results, whole bool) (string, error) {
	var sections []section
	for _, f := range lib.Families {
		if r := runs[f.Name]; r != nil {
			sections = append(sections, section{r, f})
		}
	}
	var b strings.Builder
	err := page.Execute(&b, map[string]any{"Goals": evaluate(runs), "Sections": sections, "Whole": whole})
	return b.String(), err
}

type goals struct {
	All   int
	Count map[string]int
	Table []string
}

func evaluate(runs map[string]*Results) goals {
	g := goals{Count: make(map[string]int)}
	head, blank := []string{"goal", "bound"}, ""
	for _, f := range lib.Families {
		head, blank = append(head, f.Title), blank+"|"
	}
	g.Table = []string{line(head), "|" + strings.Repeat("---|", len(head))}
	last := ""
	for _, goal := range Goals {
		if goal.Row != last {
			last = goal.Row
			g.Table = append(g.Table, "|**"+last+"**||"+blank)
		}
		text := "|" + goal.What + "|" + goal.Is + " " + goal.amount(goal.Bound) + "|"
		for _, f := range lib.Families {
			if slices.Contains(strings.Fields(goal.Families), f.Name) {
				o := goal.outcome(runs[f.Name])
				g.Count[o.reached]++
				g.All++
				text += goal.cell(o)
			}
			text += "|"
		}
		g.Table = append(g.Table, text)
	}
	return g
}

func line(cells []string) string { return "|" + strings.Join(cells, "|") + "|" }

func sentence(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

type section struct {
	*Results
	Family lib.Family
}

// Setup describes the servers.
func (s section) Setup() string {
	server := strings.TrimSpace(s.Family.Kind + " " + s.Servers[s.Family.Kind])
	return sentence(strings.TrimPrefix(server+", "+s.Family.Setup, ", "))
}

// Go returns the version of Go.
func (s section) Go() string { return strings.Replace(s.Machine.Go, "go", "Go ", 1) }

// column is a column of a table: the medians of a figure of a scenario.
type column struct{ scenario, figure, title string }

// headlines are the figures on the page; the result files have all others.
var headlines = []column{
	{"cycle", "p50", "cycle, µs"}, {"own-64", "cycles", "64 goroutines, own names, cycles/s"}, {"contend-64", "hand-offs", "one name, 64 goroutines, hand-offs/s"},
	{"contend-4x16", "hand-offs", "one name, 4 × 16 goroutines, hand-offs/s"}, {"handoff-other", "p50", "hand-off to another process, µs"},
	{"waiters-1000", "requests", "1,000 waiters, requests/s"}, {"held-10000", "requests", "10,000 held, requests/s"}, {"takeover", "p50", "takeover, ms"},
	{"beside-1", "p50", "one goroutine, as reader or permit, µs"}, {"beside-64", "cycles", "64 goroutines sharing a name, cycles/s"},
}

// Headlines returns the lines of the table of headlines.
func (s section) Headlines() []string { return s.table(headlines) }

// Figures returns the lines of the table of a scenario's figures. Every row that was measured has the same ones.
func (s section) Figures(of Scenario) []string {
	var columns []column
	for _, row := range of.Rows {
		for _, f := range row.Figures {
			if c := (column{of.Name, f.Name, strings.TrimSpace(f.Name + " " + f.Unit)}); !slices.Contains(columns, c) {
				columns = append(columns, c)
			}
		}
	}
	return s.table(columns)
}

// table returns the lines of a table with a row for each library: names on the left, medians on the right. It omits columns and rows that were not
// measured.
func (s section) table(columns []column) []string {
	rows := [][]string{{""}}
	for _, l := range s.Libraries {
		rows = append(rows, []string{l.Name})
	}
	for _, c := range columns {
		scenario := s.Scenario(c.scenario)
		if len(scenario.Rows) == 0 {
			continue
		}
		rows[0] = append(rows[0], c.title)
		for i, l := range s.Libraries {
			rows[i+1] = append(rows[i+1], median(scenario.Row(l.Name), c.figure))
		}
	}
	var lines []string
	for _, row := range rows {
		if strings.Join(row[1:], "") != "" {
			lines = append(lines, line(row))
		}
	}
	return slices.Insert(lines, 1, "|---|"+strings.Repeat("---:|", len(rows[0])-1))
}

// median returns the median of a row's figure, or "" if the row lacks it.
func median(row measure.Row, figure string) string {
	if f := row.Figure(figure); f.Each != nil {
		return number(report.QuantilesOf(f.Each).P50)
	}
	return ""
}

// Heading returns the title as a sentence.
func (s Scenario) Heading() string { return sentence(s.Title) }

// Notes lists the failures of libraries in some turns, or in all.
func (s Scenario) Notes() string {
	var notes []string
	for _, row := range s.Rows {
		if n := len(row.Failed); n > 0 {
			notes = append(notes, fmt.Sprintf("%s: failed turns: %d, such as %s.", row.Library, n, row.Failed[0]))
		}
	}
	return strings.Join(notes, " ")
}

// number formats n with two or three significant digits, and commas. Infinity stands for a failed turn.
func number(n float64) string {
	if math.IsInf(n, 0) {
		return "failed"
	}
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
	whole := fmt.Sprintf("%.0f", n)
	for i := len(whole) - 3; i > len(whole)-len(strings.TrimLeft(whole, "-")); i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	return whole
}
