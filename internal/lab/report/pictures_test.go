package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The files are well-formed XML, whatever the texts are, with no element that a text brought in, and no address of anything outside.
func TestPicturesAreWellFormed(t *testing.T) {
	elements := []string{"svg", "title", "desc", "style", "defs", "pattern", "rect", "circle", "symbol", "path", "g", "text", "use"}
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
						require.True(t, a.Name.Local != "href" || strings.HasPrefix(a.Value, "#"), a.Value)
						require.NotRegexp(t, `NaN|Inf`, a.Value, name+" "+file)
					}
				}
			}
		}
	}
}

// Each cell with a run has its picture. Alone, it has all that it refers to.
func TestPictures(t *testing.T) {
	r := sample(t)
	all := r.Pictures()
	names := slices.Collect(maps.Keys(all))
	require.Subset(t, names, []string{"matrix.svg", "legend.svg", "H7-redis.svg", "H7-redis-replicas-1.svg"})
	runs := 0
	for _, c := range r.Cells {
		runs += min(1, len(c.Runs))
	}
	require.Len(t, names, runs+2)
	require.Empty(t, (&Report{}).Pictures())
	for file, svg := range all {
		for _, m := range regexp.MustCompile(`(?:url\(#|href="#)([^)"]*)`).FindAllSubmatch(svg, -1) {
			require.Contains(t, string(svg), `id="`+string(m[1])+`"`, file)
		}
		for _, m := range regexp.MustCompile(`var\(--([a-z0-9-]*)\)`).FindAllSubmatch(svg, -1) {
			require.Contains(t, string(svg), "--"+string(m[1])+": ", file)
		}
	}
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
