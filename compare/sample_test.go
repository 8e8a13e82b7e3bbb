package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/pages"
)

// sample is the report in docs/sample, a run of this command. Its report.json is kept; the page and the pictures are rendered.
func sample(t *testing.T) *report.Report {
	r := new(report.Report)
	require.NoError(t, json.Unmarshal([]byte(pages.Read(t, "sample/"+JSONFile)), r))
	return r
}

// The sample has every hazard on every backend that existed when it was made, and its costs. It looks as reports look now.
func TestSample(t *testing.T) {
	r := sample(t)
	require.Equal(t, report.Version, r.Version)
	require.Empty(t, r.Missing)
	require.Len(t, r.Hazards, 15)
	require.Len(t, r.Costs, len(r.Subjects)-1)
	for name, write := range map[string]func(io.Writer) error{HTMLFile: r.HTML, JSONFile: r.JSON} {
		var b bytes.Buffer
		require.NoError(t, write(&b))
		pages.Is(t, "sample/"+name, b.String())
	}
	pages.Is(t, "sample/summary.txt", r.Summary())
	kept, err := filepath.Glob("../docs/sample/pictures/*.svg")
	require.NoError(t, err)
	require.NotEmpty(t, kept)
	for _, file := range kept { // those shown on pages
		pages.Is(t, path.Join("sample", PictureDir, filepath.Base(file)), string(r.Pictures()[filepath.Base(file)]))
	}
}

// A link to a cell of the sample, or the text right after it, names the cell's class.
func TestPagesAndTheSampleAgree(t *testing.T) {
	cells := make(map[string]report.Cell)
	for _, c := range sample(t).Cells {
		cells[c.ID()] = c
	}
	var classes []string
	for _, c := range report.Classes() {
		classes = append(classes, string(c))
	}
	class := regexp.MustCompile(strings.Join(classes, "|"))
	link := regexp.MustCompile(`\[([^\]]*)\]\((?:\.\./)?sample/report\.html#([A-Za-z0-9-]+)\)([^[\n|]{0,40})`)
	for _, page := range []string{"choosing", "backends/file", "backends/redis", "backends/redlock", "backends/etcd", "backends/zookeeper", "backends/postgres", "backends/mysql"} {
		links := link.FindAllStringSubmatch(pages.Read(t, page+".md"), -1)
		require.NotEmpty(t, links, page)
		for _, m := range links {
			require.Equal(t, string(cells[m[2]].Class), class.FindString(m[1]+" "+m[3]), "%s says of %s: %q", page, m[2], m[1]+m[3])
		}
	}
}

// The table of costs in docs/choosing.md shows the sample's figures.
func TestChoosing(t *testing.T) {
	r := sample(t)
	var b strings.Builder
	b.WriteString("|backend|Acquire|Release|hand-off to a waiter|a dead holder's lock|\n|---|---|---|---|---|\n")
	for _, c := range r.Costs {
		s := r.Subjects[slices.IndexFunc(r.Subjects, func(s report.Subject) bool { return s.Name == c.Subject })]
		fmt.Fprintf(&b, "|%s|%s|%s|%s|%s at a TTL of %s|\n", s.Title, report.Micros(c.Acquire.P50), report.Micros(c.Release.P50), report.Micros(c.HandOff.P50),
			report.Millis(c.Takeover.P50), report.Millis(c.TTL))
	}
	pages.Holds(t, "choosing.md", "costs", b.String())
}
