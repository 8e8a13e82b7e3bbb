package report

import (
	"fmt"
	"strings"
)

// waiterLoad draws how many requests those who wait send, beside what the articles' locks do.
func (r *Report) waiterLoad() *picture {
	var all []bar
	var figures []string
	for _, c := range r.Costs {
		for _, w := range c.Waiters {
			b := bar{series: r.seriesOf(c.Subject), about: plural(w.Waiters, "waiter", "waiters") + " in " + plural(w.Processes, "process", "processes"),
				value: w.PerSecond, first: significant(w.PerSecond) + " / s", hollow: w.Article != ""}
			if w.Article != "" {
				b.title, b.index = "An article's lock", 0
				of, _, _ := strings.Cut(w.Article, ":")
				b.about = plural(w.Waiters, "waiter", "waiters") + " " + of
			}
			if w.PerSecond == 0 {
				b.first = "none"
			}
			all = append(all, b)
			figures = append(figures, fmt.Sprintf("%s (%s): %s", b.title, b.about, b.first))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return draw("waiters", "What the servers are asked while clients wait for a lock that somebody has", sentence(figures),
		func(width float64) *canvas {
			return drawBars(all, width, true, func(v float64) string { return significant1(v) }, "requests per second, logarithmic")
		})
}

// significant1 is a power of ten.
func significant1(v float64) string {
	if v < 1 {
		return fmt.Sprintf("%.3g", v)
	}
	if v > 1e9 {
		return fmt.Sprintf("%.0e", v)
	}
	return thousands(fmt.Sprintf("%.0f", v))
}
