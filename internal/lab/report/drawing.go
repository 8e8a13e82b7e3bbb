package report

import (
	"math"
	"strings"
)

// shape is a "rect", a "line" (from its start W to the right and H down), a "text" with its baseline at Y, or a "use" of a definition in defs.svg.
type shape struct {
	Kind, Class string
	X, Y, W, H  float64
	Text        string // of a text; the name of a used definition
	Title       string // tooltip
}

// drawing is an SVG whose units are CSS pixels.
type drawing struct {
	Name, Title, Desc string // file name, title, and a description for those who cannot see it
	W, H              float64
	Shapes            []shape
}

// Greatest average widths of letters in the two fonts of drawings, and the line height, for DejaVu Sans, the widest usual font.
const (
	small  = 7.0
	bold   = 8.5
	lining = 14.0
)

func (d *drawing) add(kind, class string, x, y, w, h float64, text, title string) {
	tenth := func(v float64) float64 { return math.Round(v*10) / 10 }
	d.Shapes = append(d.Shapes, shape{kind, class, tenth(x), tenth(y), tenth(w), tenth(h), text, title})
}

func (d *drawing) rect(class string, x, y, w, h float64, title string) {
	d.add("rect", class, x, y, w, h, "", title)
}

func (d *drawing) line(class string, x, y, w, h float64) { d.add("line", class, x, y, w, h, "", "") }

func (d *drawing) text(class string, x, y float64, text string) {
	d.add("text", class, x, y, 0, 0, text, "")
}

func (d *drawing) use(name, class string, x, y, size float64, title string) {
	d.add("use", class, x, y, size, size, name, title)
}

// lines writes a text in up to most lines, none wider than width, with the first at y, and returns the y of the next line.
func (d *drawing) lines(class string, x, y, width float64, most int, text string) float64 {
	for _, line := range wrap(text, int(width/small), most) {
		d.text(class, x, y, line)
		y += lining
	}
	return y
}

// wrap splits text into lines of width characters. The last of them is cut off if text needs more than lines.
func wrap(text string, width, lines int) (all []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case len(all) == lines-1 || len([]rune(line+" "+word)) <= width:
			line += " " + word
		default:
			all, line = append(all, cut(line, width)), word
		}
	}
	if line != "" {
		all = append(all, cut(line, width))
	}
	return all
}

// scale maps values from 0 to high to coordinates.
type scale struct{ high, from, to float64 }

// at returns the coordinate of a value. Values off the scale map to the nearer end.
func (s scale) at(v float64) float64 {
	return s.from + (s.to-s.from)*math.Min(1, math.Max(0, v/s.high))
}

// ticks are at most n+1 round numbers from 0 to high.
func (s scale) ticks(n float64) (ticks []float64) {
	step := math.Pow(10, math.Floor(math.Log10(s.high/n)))
	for i := 0; s.high/step > n; i++ { // 1, 2, 5, 10
		step *= [...]float64{2, 2.5, 2}[i%3]
	}
	for v := 0.0; v <= s.high*(1+1e-9); v += step {
		ticks = append(ticks, v)
	}
	return ticks
}

// SVG returns the drawing as a file of its own, with a margin. It follows the reader's choice of light or dark.
func (d *drawing) SVG() []byte {
	const margins = 24
	return []byte(render("picture.svg.tmpl", struct {
		*drawing
		FileW, FileH float64
	}{d, d.W + margins, d.H + margins}))
}

// Pictures returns SVG files by name: the matrix, and for each cell that was run its timeline, by [Cell.ID].
func (r *Report) Pictures() map[string][]byte {
	files := make(map[string][]byte)
	if len(r.Cells) == 0 {
		return files
	}
	all := []*drawing{view{r}.drawMatrix()}
	for _, m := range (view{r}).Matrix() {
		for _, e := range m.All() {
			if e.NotRun == "" {
				all = append(all, e.Timeline())
			}
		}
	}
	for _, d := range all {
		files[d.Name+".svg"] = d.SVG()
	}
	return files
}

// drawMatrix draws the matrix, as wide as its columns.
func (r view) drawMatrix() *drawing {
	const left, column, gap = 236.0, 112.0, 4.0
	columns := r.Columns()
	d := &drawing{Name: "matrix", Title: "What was observed of each hazard on each subject", W: left + column*float64(len(columns)) + 8}
	y := lining
	for i, s := range columns {
		y = max(y, d.lines("strong", left+column*float64(i)+4, 18, column*0.8, 2, s.Title))
	}
	var figures []string
	for _, m := range r.Matrix() {
		d.line("rule", 4, y, d.W-8, 0)
		d.text("strong", 6, y+20, cut(m.ID, 4))
		bottom := d.lines("", 42, y+20, left-48, 3, m.Title)
		for i, cells := range m.Cells {
			at := y + gap
			for _, e := range cells {
				at = d.chip(e, left+column*float64(i), at, column-6) + gap
				if e.NotRun == "" {
					figures = append(figures, strings.Join([]string{m.ID, e.Who, e.Variant + ":", string(e.Class)}, " "))
				}
			}
			bottom = max(bottom, at)
		}
		y = bottom
	}
	d.H, d.Desc = y+4, strings.Join(figures, "; ")+"."
	return d
}

// chip draws a cell with its icon and its word, and returns its lower end.
func (d *drawing) chip(e *entry, x, y, width float64) float64 {
	if e.NotRun != "" {
		return d.lines("soft", x+6, y+16, width-6, 2, "– not run "+e.Variant)
	}
	key := lookOf(e.Class).Key
	box := len(d.Shapes)
	d.rect("chip-box "+key, x, y, width, 0, "")
	d.use("i-"+key, "icon "+key, x+6, y+5, 13, "")
	at := d.lines("on-"+key, x+24, y+lining, width-20, 2, string(e.Class))
	at = d.lines("on-"+key, x+24, at, width-20, 3, e.Variant)
	if e.Landed() {
		at = d.lines("on-"+key, x+24, at, width-20, 2, string(lateLanded))
		d.Shapes[box].Class += " landed"
	}
	d.Shapes[box].H = at - y - 6
	return at - 6
}

// render executes an embedded template. It panics only if the template is broken.
func render(name string, data any) string {
	var b strings.Builder
	if err := pages().ExecuteTemplate(&b, name, data); err != nil {
		panic(err)
	}
	return printable(strings.ToValidUTF8(b.String(), "\uFFFD"), "\n\t")
}
