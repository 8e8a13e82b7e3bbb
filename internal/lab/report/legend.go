package report

import "math"

// timelineLegend explains what timelines consist of.
func timelineLegend() *picture {
	return draw("legend", "What the pictures of who held the lock when consist of", "", drawTimelineLegend)
}

func drawTimelineLegend(width float64) *canvas {
	c := &canvas{w: width, h: 1e6}
	const w = 34.0
	entries := []struct {
		text string
		draw func(x, y float64)
	}{
		{"holds the lock, with its token (or its end)", func(x, y float64) {
			c.rect("hold", box{x, y - 8, x + w, y + 8}, 2)
			c.text("on-hold", strong, start, x+6, y+4.5, "34")
		}},
		{"waits for it", func(x, y float64) { c.rect("waiting", box{x, y - 2.5, x + w, y + 2.5}, 0) }},
		{"gave up", func(x, y float64) {
			c.rect("waiting", box{x, y - 2.5, x + w - 8, y + 2.5}, 0)
			c.circle("gave-up", x+w-6, y, 3.5)
		}},
		{"two hold it at one time", func(x, y float64) { c.rect("overlap", box{x, y - 8, x + w, y + 8}, 2) }},
		{"its process is stopped", func(x, y float64) { c.rect("stopped", box{x, y - 9, x + w, y + 9}, 2) }},
		{"its network is cut", func(x, y float64) { c.rect("cut", box{x, y - 9, x + w, y + 9}, 2) }},
		{"the fault lasts", func(x, y float64) { c.rect("fault-band", box{x, y - 9, x + w, y + 9}, 0) }},
		{"is killed", func(x, y float64) { c.line("alive", x, y, x+w/2, y); c.cross("killed", x+w/2, y, 6) }},
		{"writes", func(x, y float64) {
			c.line("write", x+w/2, y-7, x+w/2, y+1)
			c.circle("write mark", x+w/2, y+3, 2.4)
		}},
		{"its late write is refused", func(x, y float64) {
			c.line("write refused", x+w/2, y-8, x+w/2, y)
			c.cross("write refused", x+w/2, y+4, 3.2)
		}},
		{"its late write lands", func(x, y float64) {
			c.line("write late", x+w/2, y-8, x+w/2, y)
			c.path("write late mark", "M"+number(x+w/2)+" "+number(y+8)+"l4 -7h-8z")
		}},
	}
	column := 310.0
	if width < 500 {
		column = width
	}
	columns := int(width / column)
	for i, e := range entries {
		x, y := 4+column*float64(i%columns), 15+26*float64(i/columns)
		e.draw(x, y)
		for j, line := range small.wrap(e.text, column-w-16, 2) {
			c.text("", small, start, x+w+8, y+4+float64(j)*small.size*leading, line)
		}
	}
	c.h = 26*math.Ceil(float64(len(entries))/float64(columns)) + 8
	return c
}
