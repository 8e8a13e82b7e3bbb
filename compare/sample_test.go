package compare

import (
	"bytes"
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

// sample is the report in docs/sample, a full run of this command. Its report.json is kept; the page and the pictures are rendered.
func sample(t *testing.T) *report.Report {
	r, err := report.Read(strings.NewReader(pages.Read(t, "sample/"+JSONFile)))
	require.NoError(t, err)
	return r
}

// The sample has every hazard on every backend that existed when it was made, and its costs. It looks as reports look now.
func TestSample(t *testing.T) {
	r := sample(t)
	require.True(t, r.Full)
	require.Empty(t, r.Missing)
	require.Len(t, r.Hazards, 15)
	require.Len(t, r.Costs, len(r.Subjects)-1)
	for name, write := range map[string]func(io.Writer) error{HTMLFile: r.HTML, JSONFile: r.JSON} {
		var b bytes.Buffer
		require.NoError(t, write(&b))
		pages.Is(t, "sample/"+name, b.String())
	}
	kept, err := filepath.Glob("../docs/sample/pictures/*.svg")
	require.NoError(t, err)
	require.NotEmpty(t, kept)
	for _, file := range kept { // those shown on pages
		pages.Is(t, path.Join("sample", PictureDir, filepath.Base(file)), string(r.Pictures()[filepath.Base(file)]))
	}
}

var (
	// cellLink is a link to a cell of the sample, or to another place in it.
	cellLink = regexp.MustCompile(`\[([^\]]*)\]\((?:\.\./)?(?:docs/)?sample/report\.html#([A-Za-z0-9-]+)\)([^[\n|]{0,40})`)
	picture  = regexp.MustCompile(`\((?:\.\./)?(?:docs/)?sample/pictures/([A-Za-z0-9-]+\.svg)\)`)
)

// Pages agree with the sample: a link to a cell, or the text right after it, names the cell's class. The pictures exist.
func TestPagesAndTheSampleAgree(t *testing.T) {
	r := sample(t)
	cells := make(map[string]report.Cell)
	for _, c := range r.Cells {
		cells[c.ID()] = c
	}
	var b bytes.Buffer
	require.NoError(t, r.HTML(&b))
	links := 0
	for _, page := range []string{
		"choosing.md", "../README.md", "../README.zh-CN.md", "backends/file.md", "backends/redis.md", "backends/redlock.md", "backends/etcd.md",
		"backends/zookeeper.md", "backends/postgres.md", "backends/mysql.md", "backends/memory.md",
	} {
		text := pages.Read(t, page)
		for _, m := range cellLink.FindAllStringSubmatch(text, -1) {
			links++
			link, id, behind := m[1], m[2], m[3]
			require.Contains(t, b.String(), `id="`+id+`"`, "%s links to %s", page, id)
			if c, ok := cells[id]; ok && !strings.HasSuffix(page, ".zh-CN.md") {
				require.Empty(t, c.NotRun, "%s links to %s", page, id)
				require.Equal(t, c.Class, classIn(link+" "+behind), "%s says of %s: %q", page, id, link+behind)
			}
		}
		for _, m := range picture.FindAllStringSubmatch(text, -1) {
			require.FileExists(t, filepath.Join("../docs/sample/pictures", m[1]), "%s shows it", page)
		}
	}
	require.Greater(t, links, 40)
}

// classIn is the first class in a text. Of classes with the same beginning, it is the longest.
func classIn(text string) report.Class {
	var all []string
	for _, c := range report.Classes() {
		all = append(all, string(c))
	}
	slices.SortFunc(all, func(a, b string) int { return len(b) - len(a) })
	return report.Class(regexp.MustCompile(strings.Join(all, "|")).FindString(text))
}

// The table of costs in docs/choosing.md shows the sample's figures.
func TestChoosing(t *testing.T) {
	r := sample(t)
	var b strings.Builder
	b.WriteString("|backend|Acquire|Release|a cycle, × round trip|hand-off to a waiter|a dead holder's lock|\n|---|---|---|---|---|---|\n")
	for _, s := range r.Subjects {
		i := slices.IndexFunc(r.Costs, func(c report.Costs) bool { return c.Subject == s.Name })
		if i < 0 {
			continue
		}
		c, takeover := r.Costs[i], "–"
		if c.Takeover.Time.N > 0 {
			takeover = report.Millis(c.Takeover.Time.P50) + " at a TTL of " + report.Millis(c.TTL)
		}
		fmt.Fprintf(&b, "|%s|%s|%s|%.1f (%.1f to %.1f)|%s|%s|\n", s.Title, report.Micros(c.Cycle.Acquire.P50), report.Micros(c.Cycle.Release.P50),
			c.Cycle.Ratio.Median, c.Cycle.Ratio.Low, c.Cycle.Ratio.High, report.Micros(c.HandOff.Time.P50), takeover)
	}
	pages.Holds(t, "choosing.md", "costs", b.String())
}
