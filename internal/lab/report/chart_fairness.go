package report

import (
	"fmt"
	"math"
	"slices"
)

// shared is how often each of a subject's clients had the lock, where most of them wanted it.
type shared struct {
	series
	clients int
	shares  []int
	rate    float64 // of all of them, in a second
}

// fairness draws how evenly the clients had the lock.
func (r *Report) fairness() *picture {
	var all []shared
	var figures []string
	for _, c := range r.Costs {
		if s, ok := c.shares(); ok {
			s.series = r.seriesOf(c.Subject)
			all = append(all, s)
			figures = append(figures, fmt.Sprintf("%s, %d clients in %s: %s", s.title, s.clients, s.turn(), s.tell()))
		}
	}
	if len(all) == 0 {
		return nil
	}
	return draw("fairness", "How evenly clients had the lock that all wanted", sentence(figures), func(width float64) *canvas { return drawShares(all, width) })
}

// shares are those of the contention with the most clients that has some.
func (c *Costs) shares() (best shared, ok bool) {
	for _, t := range c.Contention {
		if len(t.Shares) > 1 && t.Clients > best.clients {
			best, ok = shared{clients: t.Clients, shares: slices.Sorted(slices.Values(t.Shares)), rate: t.PerSecond.Median}, true
		}
	}
	return best, ok
}

// turn is for how long these clients had the lock by turns, which follows from how often they did: they are those of the turn with the median rate.
func (s shared) turn() string {
	sum := 0.0
	for _, n := range s.shares {
		sum += float64(n)
	}
	if length := sum / s.rate; length > 0 && length < 1e6 {
		return significant(length) + " s"
	}
	return "–"
}

func (s shared) about() string { return count(s.clients) + " clients, " + s.turn() }

// evenness is the least share in parts of the greatest: 1 if all had the lock equally often.
func (s shared) evenness() float64 {
	if last := s.shares[len(s.shares)-1]; last > 0 {
		return float64(s.shares[0]) / float64(last)
	}
	return 0
}

func (s shared) tell() string {
	return fmt.Sprintf("least %s, most %s, ratio %s", count(s.shares[0]), count(s.shares[len(s.shares)-1]), significant(s.evenness()))
}

func drawShares(all []shared, width float64) *canvas {
	c := &canvas{w: width, h: 1e6}
	narrow := width < 500
	var names, tells, turns []string
	for _, s := range all {
		names, tells, turns = append(names, s.title), append(tells, s.tell()), append(turns, s.about())
	}
	left, right, row, high := 4.0, width-4, 46.0, 30.0
	if narrow {
		row = 62
	} else {
		left = math.Min(math.Max(strong.widest(names...), small.widest(turns...)), width*0.24) + 16
		right = width - math.Min(small.widest(tells...), width*0.4) - 20
	}
	for i, s := range all {
		bottom := 6 + row*float64(i) + row - 10
		about := s.about()
		if narrow {
			tell := small.fit(s.tell(), width*0.72)
			c.text("", strong, start, 4, bottom-high-8, strong.fit(s.title, width-small.width(tell)-20))
			c.text("soft", small, end, width-4, bottom-high-8, tell)
		} else {
			c.pair(start, 4, bottom-high/2, left-16, s.title, about)
			c.text("soft", small, end, width-4, bottom-high/2+4, small.fit(s.tell(), width-right-12))
		}
		c.titled(s.title+", "+about+": "+s.tell(), func() { c.strip(s, box{left, bottom - high, right, bottom}) })
	}
	c.h = math.Ceil(6 + row*float64(len(all)) + 2)
	return c
}

// strip draws the shares as small columns from the least to the greatest, with a line at their mean. Of more than there is room for, it draws some.
func (c *canvas) strip(s shared, b box) {
	c.line("axis", b.x0, b.y1, b.x1, b.y1)
	n := min(len(s.shares), int((b.x1-b.x0)/3))
	most, sum := s.shares[len(s.shares)-1], 0.0
	for _, v := range s.shares {
		sum += float64(v)
	}
	step := math.Min(14, (b.x1-b.x0)/float64(n))
	d := ""
	for i := range n {
		v := s.shares[i*(len(s.shares)-1)/max(1, n-1)]
		h := (b.y1 - b.y0) * math.Max(0, float64(v)) / math.Max(1, float64(most))
		d += fmt.Sprintf("M%s %sV%sh%sV%sz", number(b.x0+float64(i)*step), number(b.y1), number(b.y1-h), number(step*0.75), number(b.y1))
	}
	c.path(s.class("bar"), d)
	mean := b.y1 - (b.y1-b.y0)*math.Min(1, math.Max(0, sum/float64(len(s.shares))/math.Max(1, float64(most))))
	c.line("leader", b.x0, mean, b.x0+float64(n)*step, mean)
}
