package report

import (
	"fmt"
	"slices"
	"strings"
)

// whisker says what the bars are.
const whisker = "bar: median; whisker: 25th to 90th percentile"

// acquires draws how long an uncontended Acquire takes.
func (r *Report) acquires() *picture {
	var all []bar
	var figures []string
	for _, c := range r.Costs {
		if y := c.Cycle; y != nil && y.Acquire.N > 0 {
			b := r.timeBar(c.Subject, y.Acquire, micros)
			all = append(all, b)
			figures = append(figures, b.title+": median "+b.first+", 99 % within "+micros(y.Acquire.P99))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return draw("acquire-latency", "How long an uncontended Acquire takes", sentence(figures),
		func(width float64) *canvas { return drawBars(all, width, true, axisMicros, whisker+"; logarithmic") })
}

// handOffs draws how long the lock takes from a release to a waiter in another process.
func (r *Report) handOffs() *picture {
	var all []bar
	var figures []string
	for _, c := range r.Costs {
		if h := c.HandOff; h != nil && h.Time.N > 0 {
			b := r.timeBar(c.Subject, h.Time, micros)
			if h.Ratio.N > 0 {
				b.more = h.Ratio.of(c.question())
			}
			all = append(all, b)
			figures = append(figures, b.title+": median "+b.first+", 90 % within "+micros(h.Time.P90)+", "+b.more)
		}
	}
	return barPicture("hand-off", "From a release to the return of Acquire in another process", all, figures, axisMicros,
		whisker)
}

// takeovers draws how long it takes until a killed holder's lock is somebody else's.
func (r *Report) takeovers() *picture {
	var all []bar
	var figures []string
	for _, c := range r.Costs {
		if t := c.Takeover; t != nil && t.Time.N > 0 {
			b := r.timeBar(c.Subject, t.Time, millis)
			b.more = fmt.Sprintf("%s, TTL %s", span(t.Time), millis(c.TTL))
			all = append(all, b)
			figures = append(figures, b.title+": median "+b.first+", "+b.more)
		}
	}
	return barPicture("takeover", "From the kill of a holder's process until a waiter has the lock", all, figures, axisMillis,
		whisker)
}

// failovers draws for how long nobody can have a lock when a server is lost.
func (r *Report) failovers() *picture {
	var all []bar
	var figures []string
	for _, c := range r.Costs {
		if f := c.Failover; f != nil && f.Time.N > 0 {
			b := r.timeBar(c.Subject, f.Time, millis)
			b.about = f.What
			if f.Time.N > 1 {
				b.more = fmt.Sprintf("%s, %s times", span(f.Time), count(f.Time.N))
			}
			all = append(all, b)
			figures = append(figures, strings.TrimSuffix(fmt.Sprintf("%s (%s): median %s, %s", b.title, f.What, b.first, b.more), ", "))
		}
	}
	return barPicture("fail-over", "For how long nobody can have a lock when a server is lost", all, figures, axisMillis,
		whisker)
}

func (r *Report) timeBar(subject string, q Quantiles, text func(float64) string) bar {
	return bar{series: r.seriesOf(subject), value: q.P50, from: q.P25, to: q.P90, first: text(q.P50), alone: q.N == 1}
}

func barPicture(name, title string, all []bar, figures []string, tick func(float64) string, axis string) *picture {
	if len(all) == 0 {
		return nil
	}
	if !slices.ContainsFunc(all, func(b bar) bool { return !b.alone }) {
		axis = "one sample each"
	}
	return draw(name, title, sentence(figures), func(width float64) *canvas { return drawBars(all, width, false, tick, axis) })
}

func axisMillis(ms float64) string {
	if ms >= 1000 {
		return strings.Replace(axisSeconds(ms), ".0 s", " s", 1)
	}
	return significant0(ms) + " ms"
}

// significant0 is a round number, without zeroes behind its point.
func significant0(v float64) string {
	if v >= 1000 {
		return significant(v)
	}
	return number(v)
}

// span is from the least to the greatest of q, in milliseconds: "2.90–3.50 ms".
func span(q Quantiles) string {
	low, high := millis(q.Min), millis(q.Max)
	if low == high {
		return low
	}
	_, unit, _ := strings.Cut(high, " ")
	return strings.TrimSuffix(low, " "+unit) + "–" + high
}

// question names the bare round trip of a subject: "PING".
func (c *Costs) question() string {
	if c.Question == "" {
		return "a bare round trip"
	}
	return c.Question
}

// axisMicros is a round number of microseconds: "100 µs", "10 ms", "1 s".
func axisMicros(us float64) string {
	switch {
	case us < 1e3:
		return number(us) + " µs"
	case us < 1e6:
		return number(us/1e3) + " ms"
	case us < 1e12:
		return thousands(number(us/1e6)) + " s"
	}
	return significant(us/1e6) + " s"
}
