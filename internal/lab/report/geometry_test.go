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

// Each cell with a run has its picture.
func TestPictures(t *testing.T) {
	r := sample(t)
	names := slices.Collect(maps.Keys(r.Pictures()))
	for _, want := range []string{"matrix", "legend", "H7-redis", "H7-redis-replicas-1"} {
		require.Contains(t, names, want+".svg")
	}
	runs := 0
	for _, c := range r.Cells {
		if len(c.Runs) > 0 {
			runs++
		}
	}
	require.Len(t, names, runs+2)
	require.Empty(t, (&Report{}).Pictures())
}

func TestWrap(t *testing.T) {
	require.Equal(t, []string{"a b", "c d"}, wrap(" a b  c d ", 3, 5))
	require.Equal(t, []string{"one two", "three …"}, wrap("one two three four", 7, 2))
	require.Equal(t, []string{"a lo…"}, wrap("a long text", 5, 1))
	require.Empty(t, wrap("", 30, 2))
}

func TestScale(t *testing.T) {
	s := scale{2000, 100, 300}
	require.Equal(t, []float64{100, 200, 300, 100, 300, 100}, []float64{s.at(0), s.at(1000), s.at(1e9), s.at(-1), s.at(math.Inf(1)), s.at(math.NaN())})
	require.Equal(t, []float64{0, 500, 1000, 1500, 2000}, s.ticks(4))
	require.Equal(t, []float64{0, 500, 1000}, scale{1250, 0, 1}.ticks(3))
	require.Equal(t, []float64{0, 1e13}, scale{1e13, 0, 1}.ticks(1))
}
