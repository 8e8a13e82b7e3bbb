package report

import (
	"encoding/xml"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
)

// box is a rectangle, from its upper left corner to its lower right one.
type box struct{ x0, y0, x1, y1 float64 }

func (b box) meets(o box) bool { return b.x0 < o.x1 && o.x0 < b.x1 && b.y0 < o.y1 && o.y0 < b.y1 }

// label is a text on a canvas.
type label struct {
	box
	text string
}

// canvas is an SVG under way. It knows where its texts are, so that none covers another. Its units are CSS pixels.
type canvas struct {
	w, h   float64
	body   strings.Builder
	labels []label
	// solid is what optional texts keep away from, beside the texts.
	solid []box
}

// element writes an element without content; the attributes are names and values in turn.
func (c *canvas) element(name string, attributes ...any) {
	c.open(name, attributes...)
	c.body.WriteString("/>")
}

func (c *canvas) open(name string, attributes ...any) {
	c.body.WriteString("<" + name)
	for i := 0; i+1 < len(attributes); i += 2 {
		fmt.Fprintf(&c.body, ` %s="`, attributes[i])
		switch v := attributes[i+1].(type) {
		case float64:
			c.body.WriteString(number(v))
		default:
			c.body.WriteString(escape(fmt.Sprint(v)))
		}
		c.body.WriteString(`"`)
	}
}

func (c *canvas) rect(class string, b box, radius float64) {
	attributes := []any{"class", class, "x", b.x0, "y", b.y0, "width", math.Max(0, b.x1-b.x0), "height", math.Max(0, b.y1-b.y0)}
	if radius > 0 {
		attributes = append(attributes, "rx", radius)
	}
	c.element("rect", attributes...)
}

func (c *canvas) line(class string, x0, y0, x1, y1 float64) {
	d := "M" + number(x0) + " " + number(y0)
	switch { // a report has thousands of them
	case number(y0) == number(y1):
		d += "H" + number(x1)
	case number(x0) == number(x1):
		d += "V" + number(y1)
	default:
		d += "L" + number(x1) + " " + number(y1)
	}
	c.path(class, d)
}

func (c *canvas) path(class, d string) { c.element("path", "class", class, "d", d) }

func (c *canvas) circle(class string, x, y, r float64) {
	c.element("circle", "class", class, "cx", x, "cy", y, "r", r)
}

// cross is an × around a point.
func (c *canvas) cross(class string, x, y, r float64) {
	c.path(class, fmt.Sprintf("M%s %sl%s %sm0 %sl%s %s", number(x-r), number(y-r), number(2*r), number(2*r), number(-2*r), number(-2*r), number(2*r)))
}

// titled puts what draw draws into a group that a pointer's tooltip, or a screen reader, tells as title.
func (c *canvas) titled(title string, draw func()) {
	c.body.WriteString("<g><title>" + escape(title) + "</title>")
	draw()
	c.body.WriteString("</g>")
}

// anchor is which part of a text stands at its x.
type anchor int

const (
	start anchor = iota
	middle
	end
)

// boxOf is where text would be: x is its anchor, y its baseline.
func boxOf(f font, a anchor, x, y float64, text string) box {
	w := f.width(text)
	x0 := x - w*float64(a)/2
	return box{x0, y - ascent*f.size, x0 + w, y + descent*f.size}
}

// text writes text with its baseline at y. What most texts have is in the style: see drawing.css.
func (c *canvas) text(class string, f font, a anchor, x, y float64, text string) {
	if text == "" {
		return
	}
	c.labels = append(c.labels, label{boxOf(f, a, x, y, text), text})
	classes := strings.Fields(class)
	if f.bold {
		classes = append(classes, "b")
	}
	if a != start {
		classes = append(classes, [...]string{middle: "m", end: "e"}[a])
	}
	attributes := []any{"x", x, "y", y}
	if len(classes) > 0 {
		attributes = append(attributes, "class", strings.Join(classes, " "))
	}
	if f != small && f != strong {
		attributes = append(attributes, "style", "font-size:"+number(f.size)+"px")
	}
	c.open("text", attributes...)
	c.body.WriteString(">" + escape(text) + "</text>")
}

// free tells that nothing is where b is, and that it is on the canvas.
func (c *canvas) free(b box) bool {
	if b.x0 < 0 || b.y0 < 0 || b.x1 > c.w || b.y1 > c.h {
		return false
	}
	return !slices.ContainsFunc(c.labels, func(l label) bool { return l.meets(b) }) && !slices.ContainsFunc(c.solid, b.meets)
}

// tryText writes text if there is room for it.
func (c *canvas) tryText(class string, f font, a anchor, x, y float64, text string) bool {
	if text == "" || !c.free(boxOf(f, a, x, y, text)) {
		return false
	}
	c.text(class, f, a, x, y, text)
	return true
}

// inline is the drawing as a part of a page that has the definitions and the style already, and tells what it shows.
func (c *canvas) inline(class string) string {
	return fmt.Sprintf(`<svg class="drawing %s" viewBox="0 0 %s %s" aria-hidden="true">%s</svg>`, class, number(c.w), number(c.h), c.body.String())
}

// standalone is the drawing as a file of its own, with a margin around it.
func (c *canvas) standalone(title, desc string) []byte {
	const margin = 12
	w, h := number(c.w+2*margin), number(c.h+2*margin)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%s" class="drawing" viewBox="-%d -%d %s %s" role="img">`, w, h, margin, margin, w, h)
	fmt.Fprintf(&b, "<title>%s</title><desc>%s</desc><style>%s</style>%s", escape(title), escape(desc), coloursCSS+drawingCSS, defsSVG)
	fmt.Fprintf(&b, `<rect class="paper" x="-%d" y="-%d" width="%s" height="%s" rx="8"/>%s</svg>`+"\n", margin, margin, w, h, c.body.String())
	return []byte(b.String())
}

// number is a coordinate, to a tenth of a pixel.
func number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		v = 0
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// escape makes a text safe in XML, between tags and in attributes. What XML cannot have becomes U+FFFD.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder does not fail
	return b.String()
}

// picture is a drawing in two widths, for a desk and for a phone.
type picture struct {
	// Name is that of its file, without the ending; Title says what it shows, desc gives its figures for those who cannot see it.
	Name, Title, desc string
	wide, narrow      *canvas
}

// The widths of drawings.
const (
	wideWidth   = 960
	narrowWidth = 300
)

// draw makes a picture with a function that draws it in a width.
func draw(name, title, desc string, f func(width float64) *canvas) *picture {
	return &picture{name, title, desc, f(wideWidth), f(narrowWidth)}
}

// HTML is the picture in both widths, of which the page shows the one that fits.
func (p *picture) HTML() template.HTML {
	return template.HTML(`<div role="img" aria-label="` + escape(p.Title+". "+p.desc) + `">` + p.wide.inline("wide") + p.narrow.inline("narrow") + `</div>`)
}

// Pictures are the report's pictures as SVG files that stand alone, by file name: the matrix, the charts of the costs, and for each cell who held the
// lock when in the run that shows its class, by [Cell.ID]. They follow the reader's choice of light or dark.
func (r *Report) Pictures() map[string][]byte {
	var all []*picture
	for _, s := range r.costSections() {
		all = append(all, s.Picture)
	}
	if len(r.Cells) > 0 {
		all = append(all, r.matrixPicture(), timelineLegend())
	}
	for i := range r.Cells {
		if c := &r.Cells[i]; c.best() >= 0 {
			all = append(all, r.timelinePicture(c, c.best()))
		}
	}
	files := make(map[string][]byte)
	for _, p := range all {
		if p != nil {
			files[p.Name+".svg"] = p.wide.standalone(p.Title, p.desc)
		}
	}
	return files
}
