package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"html"
	"io"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
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
		article p h1 h2 h3 a b strong code span ul li dl dt dd div table thead tbody tr th td details summary figure`)
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
		var data bytes.Buffer
		require.NoError(t, r.JSON(&data))
		require.True(t, json.Valid(data.Bytes()), name)
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

// sample is a part of the documentation's report, from a run on real servers: with every class, variants, cells that were not run and costs.
// A missing server is added.
func sample(t testing.TB) *Report {
	t.Helper()
	text, err := os.ReadFile("../../../docs/sample/report.json")
	require.NoError(t, err)
	r := new(Report)
	require.NoError(t, json.Unmarshal(text, r))
	some := []string{"H1", "H7", "H11", "H12"}
	r.Hazards = slices.DeleteFunc(r.Hazards, func(h Hazard) bool { return !slices.Contains(some, h.ID) })
	r.Cells = slices.DeleteFunc(r.Cells, func(c Cell) bool { return !slices.Contains(some, c.Hazard) })
	r.Missing = []Missing{{Subject: "postgres", Program: "pgbouncer", Install: "apt-get install pgbouncer"}}
	return r
}

// reports are the sample, and reports of other shapes, with texts that are unlikely but possible.
func reports(t testing.TB) map[string]*Report {
	t.Helper()
	const text = "<script>alert(1)</script> ]]> --> \" ' & </svg></title> {{.}} `x` | [a](b)\x00\x1b[31m\nline two \u202e é 漢字 =1+1"
	hostile, costs := sample(t), sample(t)
	infect(reflect.ValueOf(hostile), text)
	costs.Hazards, costs.Cells, costs.Missing = nil, nil, nil
	costs.Subjects[2] = Subject{Name: "redis", Title: "Redis", URL: "redis://xxxxx@a.rather.long.name.of.a.host.example.org:6379/3", Page: "redis"}
	empty := &Report{Version: Version, Began: time.Unix(0, 0).UTC()}
	return map[string]*Report{"sample": sample(t), "hostile": hostile, "costs": costs, "empty": empty}
}

// infect appends text to each text in v.
func infect(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			infect(v.Elem(), text)
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			infect(v.Index(i), text)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				infect(v.Field(i), text)
			}
		}
	case reflect.String:
		if v.String() != "" {
			v.SetString(v.String() + text)
		}
	}
}
