package report

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lab/worker"
)

// chromium has a headless Chromium load a page from a file and returns its DOM after that. If LOCKPORT_TEST_SCREENSHOTS names a folder, a picture of
// the page is left there for people to look at.
func chromium(t *testing.T, file, fragment string) string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs chromium, which -short does without")
	}
	program := servers.NeedProgram(t, "chromium")
	args := []string{
		"--headless", "--user-data-dir=" + t.TempDir(), "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking", "--no-first-run",
		"--allow-file-access-from-files", "--hide-scrollbars", "--log-level=3",
	}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox") // which refuses to work for root
	}
	run := func(more ...string) string {
		cmd := exec.Command(program, append(slices.Concat(args, more), "file://"+file+fragment)...)
		var out, said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &said
		process, err := worker.Run(cmd) // so that it ends with this process
		require.NoError(t, err)
		<-process.Over()
		require.True(t, process.State().Success(), "%s", said.String())
		return out.String()
	}
	if folder := os.Getenv("LOCKPORT_TEST_SCREENSHOTS"); folder != "" {
		require.NoError(t, os.MkdirAll(folder, 0o755))
		name := strings.NewReplacer("/", "-", "#", "").Replace(t.Name() + "-" + filepath.Base(file) + fragment)
		run("--window-size=1280,4000", "--screenshot="+filepath.Join(folder, name+".png"))
	}
	return run("--virtual-time-budget=60000", "--dump-dom")
}

//go:embed testdata/page.js
var pageJS string

// framed shows pages side by side in frames, each as wide as its name says ("375-dark"), and returns what check finds wrong with any of them.
// check is a JavaScript function of the frame's window that returns a list of texts.
func framed(t *testing.T, files map[string]string, check string) []string {
	t.Helper()
	dir := t.TempDir()
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(file, []byte(files[name]), 0o644))
		width, _, _ := strings.Cut(name, "-")
		fmt.Fprintf(&b, `<iframe name="%s" src="%s" style="width:%spx;height:900px;border:0"></iframe>`, name, name, width)
	}
	fmt.Fprintf(&b, `<pre></pre><script>const check = %s;
onload = () => { document.querySelector("pre").textContent = JSON.stringify(Array.from(frames, (_, i) => frames[i]).flatMap((f) => check(f).map((s) => f.name + ": " + s))) };</script>`, check)
	file := filepath.Join(dir, "frames.html")
	require.NoError(t, os.WriteFile(file, []byte(b.String()), 0o644))
	found := regexp.MustCompile(`(?s)<pre>(.*?)</pre>`).FindStringSubmatch(chromium(t, file, ""))
	require.NotNil(t, found)
	var wrong []string
	require.NoError(t, json.Unmarshal([]byte(html.UnescapeString(found[1])), &wrong), "%q", found[1])
	return wrong
}

// Media queries that a frame cannot meet, such as the reader's choice of dark colours, become some that each frame meets.
var (
	inDark  = strings.NewReplacer("(prefers-color-scheme: dark)", "(min-width: 0)")
	inPrint = strings.NewReplacer("@media print", "@media screen")
)

// A report can be read at a desk and on a phone, by day and by night: nothing reaches out of the window, no text covers another, and contrasts suffice.
func TestReportInABrowser(t *testing.T) {
	files := make(map[string]string)
	all := reports(t)
	delete(all, "odd") // whose instants are none, so that nothing has its place
	for name, r := range all {
		page := htmlOf(t, r)
		name += ".html"
		files["375-dark-"+name] = inDark.Replace(page)
		switch name {
		case "sample.html": // other shapes are tried in the looks that differ most
			files["1280-dark-"+name], files["800-light-"+name], files["375-light-"+name], files["320-light-"+name] = inDark.Replace(page), page, page, page
			fallthrough
		case "real.html", "many.html", "hostile.html":
			files["1280-light-"+name] = page
		}
	}
	require.Empty(t, framed(t, files, pageJS))
}

// A link opens its run without any script, and on paper every run is open.
func TestReportWithoutScript(t *testing.T) {
	page := htmlOf(t, sample(t))
	file := filepath.Join(t.TempDir(), "report.html")
	require.NoError(t, os.WriteFile(file, []byte(page), 0o644))
	seen := chromium(t, file, "#H12-etcd")
	before, _, ok := strings.Cut(seen, `<div class="body" id="H12-etcd"`)
	require.True(t, ok)
	require.Regexp(t, `^<details class="cell" open="">`, before[strings.LastIndex(before, "<details"):])
	require.Empty(t, framed(t, map[string]string{"1000-print.html": inPrint.Replace(page)}, `({document}) =>
		[...document.querySelectorAll(".body")].filter((e) => !e.checkVisibility({contentVisibilityAuto: true})).map((e) => e.id + " is not printed")`))
}

// The picture files show what they should where nothing else styles them.
func TestPicturesInABrowser(t *testing.T) {
	files := make(map[string]string)
	for name, svg := range sample(t).Pictures() {
		if strings.HasPrefix(name, "H") && !strings.HasPrefix(name, "H7-") {
			continue // they differ in what they show alone
		}
		files["1000-"+name], files["1000-dark-"+name] = string(svg), inDark.Replace(string(svg))
	}
	require.Empty(t, framed(t, files, `(w) => {
		const svg = w.document.documentElement, ink = w.getComputedStyle(svg.querySelector("text")).fill;
		return [svg.tagName === "svg" ? "" : "no picture", ink === "rgb(0, 0, 0)" ? "unstyled" : ""].filter((s) => s);
	}`))
}
