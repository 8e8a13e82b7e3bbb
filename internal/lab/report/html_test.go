package report

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func htmlOf(t testing.TB, r *Report) string {
	t.Helper()
	var b strings.Builder
	require.NoError(t, r.HTML(&b))
	return b.String()
}

// Every tag is closed where it must be, no text of a report brings in an element or an attribute, no id is there twice, and nothing refers to the
// outside but links.
func TestHTMLIsSound(t *testing.T) {
	elements := strings.Fields(`html head meta title style body svg defs pattern rect circle symbol path line g text use desc main header footer nav section article
		p h1 h2 h3 a b strong code span ul li dl dt dd div table thead tbody tr th td details summary figure figcaption`)
	for name, r := range reports(t) {
		text := htmlOf(t, r)
		d := xml.NewDecoder(strings.NewReader(text))
		d.Entity = xml.HTMLEntity
		ids := make(map[string]bool)
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
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
		for _, m := range regexp.MustCompile(`(href="#|url\(#)([^")]*)`).FindAllStringSubmatch(text, -1) {
			require.True(t, ids[m[2]], "%s: nothing has the id %s", name, m[2])
		}
	}
}

// Everything that a report says is in the page.
func TestHTMLSaysAll(t *testing.T) {
	r := sample(t)
	text := htmlOf(t, r)
	var b strings.Builder
	for _, part := range []string{"AMD EPYC 7B13", "quick run, 2m41s", "pgbouncer is not installed", "apt-get install pgbouncer", "Redis 7.0.15", "7.75 GiB", "lockport compare</code>",
		docs + "backends/redlock.md"} {
		require.Contains(t, text, part)
	}
	for _, c := range r.Cells {
		for _, part := range []string{fullStop(c.Setup), c.Observed, c.NotRun, fullStop(c.Lock)} {
			b.Reset()
			require.NoError(t, xml.EscapeText(&b, []byte(part)))
			require.Contains(t, text, b.String())
		}
		require.Contains(t, text, `id="`+c.ID()+`"`)
	}
	require.NotContains(t, text, "<script")
	require.NotContains(t, text, `href="#H7-redis-sentinel"`, "another variant of the cell was played")
	require.Contains(t, text, `href="#H8-file"`, "what was not played at all is told")
	require.Equal(t, 4, strings.Count(text, lateLanded), "in short, in the matrix, in its legend, and in the hazard")
	require.Contains(t, text, `<a href="#article-002">002</a>, <a href="#article-004">004</a>.`)

	r.Full = true
	r.Subjects[2].URL = "redis://it's"
	require.Equal(t, `lockport compare --full --url 'redis://it'\''s'`, r.command())
}
