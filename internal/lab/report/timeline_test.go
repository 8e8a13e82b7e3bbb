package report

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// texts are what is written in a drawing.
func texts(c *canvas) (all []string) {
	for _, l := range c.labels {
		all = append(all, l.text)
	}
	return all
}

// Both tokens of an overlap are told, and what lasted a moment beside what lasted long can be seen.
func TestTimelineTellsAll(t *testing.T) {
	r := &Run{
		Took: 600,
		Lanes: []Lane{
			{Client: "A", Spans: []Span{{Held: true, Got: 1, Until: 590, Token: 1838382875473723392}}, Cut: []Band{{From: 10, To: 400, What: "slow"}}},
			{Client: "B", Spans: []Span{{Held: true, Asked: 5, Got: 6, Until: 595, Token: 1838382875508483072, Ending: "released"}}},
			{Client: "C", Spans: []Span{{Held: true, Asked: 300, Got: 300, Until: 300.1, Token: 1838382875508483073, Ending: "released"}}},
			{Client: "D"},
		},
		Overlaps: []Overlap{{From: 6, To: 590, Older: "A", Newer: "B", Tokens: [2]Token{1838382875473723392, 1838382875508483072}}},
	}
	for _, width := range []float64{wideWidth, narrowWidth} {
		c := drawTimeline(r, width)
		all := texts(c)
		require.Contains(t, strings.Join(all, " "), "A (…473723392) and B (…508483072), 584 ms")
		require.Contains(t, all, "slow", "what befell its network, by its name")
		require.NotContains(t, all, "cut off")
		require.NotContains(t, all, "D", "who did nothing with this lock")
		require.True(t, slices.ContainsFunc(all, func(text string) bool { return strings.HasSuffix(text, " ms") && text != "584 ms" }), "a short run counts in milliseconds")
		for _, m := range regexp.MustCompile(`<rect class="hold" [^>]*width="([0-9.]+)"`).FindAllStringSubmatch(c.body.String(), -1) {
			require.False(t, strings.HasPrefix(m[1], "0") || strings.HasPrefix(m[1], "1.") || m[1] == "1", "a hold of %s pixels", m[1])
		}
	}
	for to := 100.0; to < 600; to += 50 { // with more room beside it, and less
		r.Overlaps[0].To = to
		for _, text := range texts(drawTimeline(r, wideWidth)) {
			require.False(t, strings.HasSuffix(text, "…"), text)
		}
	}
	all := texts(drawTimeline(r, wideWidth))
	require.Contains(t, all, "held for 100 µs; released")
	require.Contains(t, all, "token …508483073")
}

// A picture alone has all that it refers to, and little else.
func TestPicturesHaveWhatTheyNeed(t *testing.T) {
	for file, svg := range sample(t).Pictures() {
		text := string(svg)
		for _, m := range regexp.MustCompile(`(?:url\(#|href="#)([^)"]*)`).FindAllStringSubmatch(text, -1) {
			require.Contains(t, text, `id="`+m[1]+`"`, file)
		}
		for _, m := range regexp.MustCompile(`var\(--([a-z0-9-]*)\)`).FindAllStringSubmatch(text, -1) {
			require.Contains(t, text, "--"+m[1]+": ", file)
		}
	}
}
