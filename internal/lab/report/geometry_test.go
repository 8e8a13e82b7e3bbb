package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// reports are the sample and all that is generated.
func reports(t testing.TB) map[string]*Report {
	all := generated(t)
	all["sample"] = sample(t)
	for seed := range uint64(6) {
		all["random "+string(rune('a'+seed))] = random(seed+10, 1+int(seed)*4, 1+int(seed)*4)
	}
	odd := sample(t) // with figures that are no numbers
	for i := range odd.Costs {
		c := &odd.Costs[i]
		for _, q := range c.quantiles() {
			q.P50, q.P90 = math.NaN(), math.Inf(1)
		}
		for j := range c.Contention {
			c.Contention[j].PerSecond = Spread{3, math.NaN(), math.Inf(-1), math.Inf(1)}
		}
		c.Waiters = append(c.Waiters, Waiters{PerSecond: math.NaN()}, Waiters{PerSecond: -1})
	}
	for i := range odd.Cells {
		for j := range odd.Cells[i].Runs {
			n := &odd.Cells[i].Runs[j]
			n.Took = math.Inf(1)
			n.Marks = append(n.Marks, Mark{math.NaN(), "never"}, Mark{-1e9, "before"})
			n.Overlaps = append(n.Overlaps, Overlap{From: math.NaN(), To: math.Inf(1)})
		}
	}
	all["odd"] = odd
	return all
}

// In every drawing, in both widths, each text is on the canvas and on no other text.
func TestNoTextIsCutOrCovered(t *testing.T) {
	for name, r := range reports(t) {
		all := []*picture{timelineLegend(), r.matrixPicture()}
		for _, s := range r.costSections() {
			if s.Picture != nil {
				all = append(all, s.Picture)
			}
		}
		for i := range r.Cells {
			for j := range r.Cells[i].Runs {
				all = append(all, r.timelinePicture(&r.Cells[i], j))
			}
		}
		for _, p := range all {
			for _, c := range []*canvas{p.wide, p.narrow} {
				requireTidy(t, c, name+" "+p.Name)
			}
		}
	}
}

func requireTidy(t *testing.T, c *canvas, about string) {
	t.Helper()
	require.Less(t, c.h, 20000.0, about)
	for i, a := range c.labels {
		if a.x0 < -0.01 || a.y0 < -0.01 || a.x1 > c.w+0.01 || a.y1 > c.h+0.01 {
			require.Failf(t, "cut", "%s: %q at %v is not on the canvas of %v by %v", about, a.text, a.box, c.w, c.h)
		}
		for _, b := range c.labels[i+1:] {
			if a.meets(b.box) {
				require.Failf(t, "covered", "%s, width %v: %q at %v and %q at %v", about, c.w, a.text, a.box, b.text, b.box)
			}
		}
	}
}

// The files are well-formed XML, whatever the texts are, with no element that a text brought in, and no address of anything outside.
func TestPicturesAreWellFormed(t *testing.T) {
	elements := []string{"svg", "title", "desc", "style", "defs", "pattern", "rect", "circle", "symbol", "path", "line", "g", "text", "use"}
	for name, r := range reports(t) {
		for file, svg := range r.Pictures() {
			require.Regexp(t, `^[A-Za-z0-9-]+\.svg$`, file)
			d := xml.NewDecoder(bytes.NewReader(svg))
			for {
				token, err := d.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				require.NoError(t, err, name+" "+file)
				if e, ok := token.(xml.StartElement); ok {
					require.Contains(t, elements, e.Name.Local, name+" "+file)
					for _, a := range e.Attr {
						if a.Name.Local == "href" {
							require.True(t, strings.HasPrefix(a.Value, "#"), a.Value)
						}
					}
				}
			}
			require.NotContains(t, string(svg), "NaN", name+" "+file)
			require.NotContains(t, string(svg), "Inf", name+" "+file)
		}
	}
}

// Each cell with a run has its picture, and so has each chart.
func TestPictures(t *testing.T) {
	r := sample(t)
	names := slices.Collect(maps.Keys(r.Pictures()))
	for _, want := range []string{"matrix", "legend", "acquire-latency", "hand-off", "takeover", "fail-over", "holds-per-second", "waiters", "H7-redis", "H7-redis-replicas-1"} {
		require.Contains(t, names, want+".svg")
	}
	runs := 0
	for _, c := range r.Cells {
		if len(c.Runs) > 0 {
			runs++
		}
	}
	require.Len(t, names, runs+8)
	require.Empty(t, (&Report{}).Pictures())
}

func TestTextMeasures(t *testing.T) {
	f := font{size: 10}
	require.Equal(t, "abc", f.fit("abc", 100))
	require.Equal(t, "", f.fit("abc", 1))
	require.True(t, strings.HasSuffix(f.fit("a long text", 30), "…"))
	require.LessOrEqual(t, f.width(f.fit("a long text", 30)), 30.0)
	require.Equal(t, []string{"a b", "c d"}, f.wrap(" a b  c d ", f.width("a b")+1, 5))
	require.Len(t, f.wrap("one two three four", 30, 2), 2)
	require.Empty(t, f.wrap("", 30, 2))
}
