package report

import (
	"cmp"
	"math"
	"slices"
)

// cdf is a subject's curve: what part of its samples (in microseconds) does not exceed a value.
type cdf struct {
	series
	curve []float64
}

// acquireCurves draws how long an uncontended Acquire took, for each subject.
func (r *Report) acquireCurves() *picture {
	var all []cdf
	var figures []string
	for _, c := range r.Costs {
		if c.Cycle == nil || len(c.Cycle.Acquire.Curve) < 2 {
			continue
		}
		s := r.seriesOf(c.Subject)
		all = append(all, cdf{series: s, curve: c.Cycle.Acquire.Curve})
		figures = append(figures, s.title+": median "+micros(c.Cycle.Acquire.P50)+", 99 % within "+micros(c.Cycle.Acquire.P99))
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b cdf) int { return cmp.Compare(a.curve[len(a.curve)/2], b.curve[len(b.curve)/2]) })
	return draw("acquire-latency", "How long an uncontended Acquire takes, as a cumulative distribution", sentence(figures),
		func(width float64) *canvas { return drawCurves(all, width) })
}

func drawCurves(all []cdf, width float64) *canvas {
	c := &canvas{w: width, h: 1e6}
	low, high := math.Inf(1), 0.0
	for _, s := range all {
		for _, v := range s.curve {
			if v = finite(v); v > 0 {
				low, high = math.Min(low, v), math.Max(high, v)
			}
		}
	}
	x, ticks := logarithmic(low, high, 44, width-14)
	top, leaders := c.nameCurves(all, x)
	bottom := top + math.Min(280, width*0.6)
	y := scale{0, 100, bottom, top, false}
	for _, percent := range []float64{0, 25, 50, 75, 100} {
		c.line("grid", x.from, y.at(percent), x.to, y.at(percent))
		c.text("soft", small, end, x.from-6, y.at(percent)+3.5, number(percent)+" %")
	}
	below := c.ticksBelow(x, ticks, top, bottom, axisMicros, "time to acquire (logarithmic); upwards: the part of the acquisitions that took no longer")
	for _, s := range all {
		var points [][2]float64
		for percent, v := range s.curve {
			points = append(points, [2]float64{x.at(math.Max(finite(v), x.low)), y.at(100 * float64(percent) / float64(len(s.curve)-1))})
		}
		c.titled(s.title, func() { c.polyline(s.dashed("curve"), points) })
	}
	if leaders == nil {
		var names []series
		for _, s := range all {
			names = append(names, s.series)
		}
		below = c.legend(names, below)
	} else {
		leaders(y)
	}
	c.h = math.Ceil(below + 2)
	return c
}

// named is how far up its curve a name's line leads.
const named = 90

// nameCurves writes the names above the curves, with lines that lead to them, and returns where the curves begin. Where there is no room for all,
// it writes none and returns no leaders: a legend must tell them apart.
func (c *canvas) nameCurves(all []cdf, x scale) (top float64, leaders func(y scale)) {
	var names []*remark
	for _, s := range all {
		at := finite(s.curve[named*(len(s.curve)-1)/100])
		names = append(names, &remark{text: s.title, x: x.at(math.Max(at, x.low))})
	}
	order := slices.Clone(names)
	slices.SortStableFunc(order, func(a, b *remark) int { return cmp.Compare(a.x, b.x) })
	height, ok := stack(order, c.w, c.w*0.4, 1)
	if !ok {
		return 10, nil
	}
	top, _, _ = c.stackedRemarks(order, height)
	return top, func(y scale) {
		for i, m := range names {
			c.line(all[i].class("range"), m.x, top+m.y0+4, m.x, y.at(named))
			c.circle(all[i].class("dot"), m.x, y.at(named), 2.6)
		}
	}
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
