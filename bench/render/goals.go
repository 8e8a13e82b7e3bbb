package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/lockport/lockport/bench/goal"
	"github.com/lockport/lockport/bench/result"
	"github.com/lockport/lockport/bench/stage"
)

// Goals is the table of all goals and of what the runs say of them.
func Goals(runs []*result.Results) string {
	all := goal.Evaluate(goal.All(), runs)
	counts := make(map[goal.Reached]int)
	for _, o := range all {
		counts[o.Reached]++
	}
	var b strings.Builder
	b.WriteString("## Goals\n\n")
	fmt.Fprintf(&b, "Of %d goals **%d are reached** in every turn, **%d are not certain** (some turns were on either side), **%d are missed**, %d are not measured. ",
		len(all), counts[goal.Yes]+counts[goal.Reported], counts[goal.NotCertain], counts[goal.No], counts[goal.NotMeasured])
	b.WriteString("Ratios (×) are made within a turn; the median, and in parentheses what the turns gave at least and at most. *The bare commands* are the floor: what a lock " +
		"cannot do without, through the client library, without token and wake-up. *The best peer* is the best in that turn of the other libraries, on the SQL servers the " +
		"blocking call itself. Where several scenarios count, the worst is shown.\n")
	families := stage.Families
	b.WriteString("\n| goal | bound |")
	for _, f := range families {
		b.WriteString(" " + f.Title + " |")
	}
	b.WriteString("\n| --- | --- |" + strings.Repeat(" --- |", len(families)) + "\n")
	for _, row := range goal.Rows {
		fmt.Fprintf(&b, "| **%s** | |%s\n", row, strings.Repeat(" |", len(families)))
		for _, line := range lines(all, row) {
			fmt.Fprintf(&b, "| %s | %s |", about(line[0].Goal), bound(line[0].Goal))
			for _, f := range families {
				i := slices.IndexFunc(line, func(o goal.Outcome) bool { return o.Family == f.Name })
				if i < 0 {
					b.WriteString(" |")
					continue
				}
				b.WriteString(" " + outcome(line[i]) + " |")
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// lines are the goals of a row, those together that differ in their families alone.
func lines(all []goal.Outcome, row string) (lines [][]goal.Outcome) {
	at := make(map[string]int)
	for _, o := range all {
		if o.Row != row {
			continue
		}
		key := about(o.Goal) + bound(o.Goal)
		i, ok := at[key]
		if !ok {
			i = len(lines)
			at[key], lines = i, append(lines, nil)
		}
		lines[i] = append(lines[i], o)
	}
	return lines
}

func about(g goal.Goal) string {
	if setting, ok := strings.CutPrefix(g.Ours, "lockport, "); ok {
		return g.What + " (" + setting + ")"
	}
	return g.What
}

// outcome is what was measured, and whether that is what was meant to be.
func outcome(o goal.Outcome) string {
	if o.Reached == goal.NotMeasured {
		return "not measured"
	}
	text := amount(o.Goal, o.Median)
	if o.Low != o.High {
		text += fmt.Sprintf(" (%s to %s)", Number(o.Low), Number(o.High))
	}
	switch o.Reached {
	case goal.Reported:
		return text
	case goal.No:
		return "**no**: " + text
	}
	return string(o.Reached) + ": " + text
}

func bound(g goal.Goal) string {
	switch {
	case g.AtMost != nil:
		return "≤ " + amount(g, *g.AtMost)
	case g.AtLeast != nil:
		return "≥ " + amount(g, *g.AtLeast)
	}
	return "reported"
}

// amount is a number as it is compared: a ratio, a difference, or the figure itself.
func amount(g goal.Goal, v float64) string {
	switch {
	case len(g.To) == 0:
		return Number(v)
	case g.Beyond:
		if v > 0 {
			return "+" + Number(v)
		}
		return Number(v)
	}
	return Number(v) + "×"
}
