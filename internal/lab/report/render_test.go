package report

import (
	"encoding/xml"
	"html"
	"io"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

// Package compare checks the whole sample in docs/sample: its page, its pictures, and its summary for a terminal.
func TestSummary(t *testing.T) {
	r := sample(t)
	r.Subjects[2].URL = "redis://it's"
	var page strings.Builder
	require.NoError(t, r.HTML(&page))
	require.Contains(t, html.UnescapeString(page.String()), `lockport compare --url 'redis://it'\''s'`)
	require.Equal(t, "Nothing was run.\n", (&Report{}).Summary())
	require.Empty(t, (&Report{}).Pictures())
}

// sound fails t unless text is XML with known elements, and links only to itself and the documentation. It returns the ids.
func sound(t testing.TB, name, text string) map[string]bool {
	elements := strings.Fields(`html head meta title style body svg defs pattern rect circle symbol path line g text use desc main header footer nav section
		article p h1 h2 h3 a b strong code span ul li dl dt dd div table thead tbody tr th td details summary figure figcaption`)
	d := xml.NewDecoder(strings.NewReader(text))
	d.Entity = xml.HTMLEntity
	ids := make(map[string]bool)
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		require.NoError(t, err, name)
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		require.Contains(t, elements, e.Name.Local, name)
		for _, a := range e.Attr {
			require.False(t, strings.HasPrefix(a.Name.Local, "on") || a.Name.Local == "src" || a.Name.Local == "srcset", name)
			switch a.Name.Local {
			case "id":
				require.False(t, ids[a.Value], "%s: two elements have the id %s", name, a.Value)
				require.NotContains(t, a.Value, " ")
				ids[a.Value] = true
			case "href":
				require.True(t, strings.HasPrefix(a.Value, "#") || strings.HasPrefix(a.Value, docs), a.Value)
			}
		}
	}
	for _, m := range regexp.MustCompile(`(?:href="#|url\(#)([^")]*)`).FindAllStringSubmatch(text, -1) {
		require.True(t, ids[m[1]], "%s: nothing has the id %s", name, m[1])
	}
	return ids
}

// A report's texts cannot add an element, a link or a control character. Each cell has an anchor.
func TestRenderingsAreSound(t *testing.T) {
	for name, r := range reports(t) {
		var page strings.Builder
		require.NoError(t, r.HTML(&page))
		ids := sound(t, name, page.String())
		for file, svg := range r.Pictures() {
			require.Regexp(t, `^[A-Za-z0-9-]+\.svg$`, file)
			sound(t, name+" "+file, string(svg))
		}
		for line := range strings.Lines(r.Summary()) {
			require.LessOrEqual(t, utf8.RuneCountInString(line), 106, name)
			require.False(t, name == "sample" && strings.Contains(line, "…"), "cut: %s", line)
			require.NotContains(t, line, "\x1b", name)
		}
		for i := range r.Cells {
			require.True(t, ids[r.Cells[i].ID()], name)
		}
	}
}

// The run that is drawn first is the one that the cell describes, also if the cell adds a remark.
func TestBest(t *testing.T) {
	runs := []Run{{Class: Safe, Observed: "Nothing."}, {Class: Costly, Observed: "One."}, {Class: Costly, Observed: "Two."}}
	for observed, best := range map[string]int{"Two.": 2, "Two. Plays that broke off: 1 (why).": 2, "": 0} {
		require.Equal(t, best, (&Cell{Class: Costly, Observed: observed, Runs: runs}).best(), observed)
	}
	require.Equal(t, -1, (&Cell{}).best())
}
