package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// held is a subject's line: how often the lock was had in a second, by so many clients.
type held struct {
	series
	at []Contention
}

// clientsIn says how many clients there are, and in how many processes.
func clientsIn(all []held, clients int) string {
	for _, h := range all {
		for _, p := range h.at {
			if p.Clients == clients && p.Processes > 0 {
				return fmt.Sprintf("%s in %s", count(clients), count(p.Processes))
			}
		}
	}
	return count(clients)
}

// holdsPerSecond draws how often one lock can be had, against how many want it.
func (r *Report) holdsPerSecond() *picture {
	var all []held
	var figures []string
	for _, c := range r.Costs {
		if len(c.Contention) == 0 {
			continue
		}
		h := held{r.seriesOf(c.Subject), slices.Clone(c.Contention)}
		slices.SortStableFunc(h.at, func(a, b Contention) int { return cmp.Compare(a.Clients, b.Clients) })
		all = append(all, h)
		last := h.at[len(h.at)-1]
		figures = append(figures, fmt.Sprintf("%s: %s holds per second by %d clients, %s by %d", h.title, figureSpread(h.at[0].PerSecond), h.at[0].Clients,
			figureSpread(last.PerSecond), last.Clients))
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b held) int {
		return cmp.Compare(b.at[len(b.at)-1].PerSecond.Median, a.at[len(a.at)-1].PerSecond.Median)
	})
	return draw("holds-per-second", "How often per second one lock is had, by how many clients", sentence(figures),
		func(width float64) *canvas { return drawHolds(all, width) })
}

func drawHolds(all []held, width float64) *canvas {
	c := &canvas{w: width, h: 1e6}
	var clients []int
	low, high, names := math.Inf(1), 0.0, []string{}
	for _, h := range all {
		names = append(names, h.title)
		for _, p := range h.at {
			clients = append(clients, p.Clients)
			if v := finite(p.PerSecond.Median); v > 0 {
				low, high = math.Min(low, v), math.Max(high, math.Max(v, finite(p.PerSecond.High)))
				if l := finite(p.PerSecond.Low); l > 0 {
					low = math.Min(low, l)
				}
			}
		}
	}
	slices.Sort(clients)
	clients = slices.Compact(clients)
	const top = 10.0
	bottom := top + math.Max(math.Min(280, width*0.7), float64(len(all))*strong.size*leading+8)
	y, ticks := logarithmic(low, high, bottom, top)
	left := 0.0
	for _, tick := range ticks {
		left = math.Max(left, small.width(significant1(tick)))
	}
	right := width - math.Min(strong.widest(names...), width*0.3) - 22
	x := scale{math.Max(1, float64(clients[0])), math.Max(2, float64(clients[len(clients)-1])), left + 14, right, true}
	for _, tick := range ticks {
		c.line("grid", x.from, y.at(tick), x.to, y.at(tick))
		c.text("soft", small, end, x.from-6, y.at(tick)+3.5, significant1(tick))
	}
	var columns []float64
	for _, n := range clients {
		columns = append(columns, float64(n))
	}
	below := c.ticksBelow(x, columns, top, bottom, func(v float64) string { return clientsIn(all, int(v)) }, "clients in processes (across); holds per second of all together (up); both logarithmic")
	ends := make([]float64, len(all))
	for i, h := range all {
		points := make([][2]float64, len(h.at))
		for j, p := range h.at {
			points[j] = [2]float64{x.at(float64(p.Clients)), y.at(p.PerSecond.Median)}
		}
		ends[i] = points[len(points)-1][1]
		c.titled(h.title, func() {
			c.polyline(h.dashed("curve"), points)
			for j, p := range h.at {
				if p.PerSecond.N > 1 {
					c.line(h.class("range"), points[j][0], y.at(p.PerSecond.Low), points[j][0], y.at(p.PerSecond.High))
				}
				c.circle(h.class("dot"), points[j][0], points[j][1], 3)
			}
		})
	}
	at := spreadOut(ends, strong.size*leading, top+4, bottom-4)
	for i, h := range all {
		c.line(h.class("range"), x.at(float64(h.at[len(h.at)-1].Clients))+4, ends[i], right+14, at[i])
		c.text("", strong, start, right+18, at[i]+4, strong.fit(h.title, width-right-20))
	}
	c.h = math.Ceil(below + 2)
	return c
}
