package report

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/browser"
)

// screenshots names a folder into which the test puts pictures of the page, for people to look at.
const screenshots = "LOCKPORT_TEST_SCREENSHOTS"

var (
	//go:embed testdata/page.js
	pageJS string
	//go:embed testdata/links.js
	linksJS string
)

// browserLooks are how a report is looked at: at a desk and on a phone, by day and by night.
func browserLooks() map[string]browser.Look {
	return map[string]browser.Look{
		"desk-light":  {Width: 1280, Height: 900, Still: true},
		"desk-dark":   {Width: 1280, Height: 900, Still: true, Dark: true},
		"table-light": {Width: 800, Height: 1100, Still: true},
		"phone-light": {Width: 375, Height: 812, Scale: 2, Still: true},
		"phone-dark":  {Width: 375, Height: 812, Scale: 2, Still: true, Dark: true},
		"small-phone": {Width: 320, Height: 600, Still: true},
	}
}

func TestReportInABrowser(t *testing.T) {
	ctx := t.Context()
	b := browser.Need(t)
	reports := map[string]*Report{"sample": sample(t)}
	for name, r := range generated(t) {
		reports[name] = r
	}
	for name, r := range reports {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "report.html")
			f, err := os.Create(file)
			require.NoError(t, err)
			require.NoError(t, r.HTML(f))
			require.NoError(t, f.Close())
			p, err := b.NewPage(ctx)
			require.NoError(t, err)
			for look, how := range browserLooks() {
				if name != "sample" && name != aRealRun && look != "desk-light" && look != "phone-dark" {
					continue // shapes are tried in the two that differ most
				}
				require.NoError(t, p.Look(ctx, how))
				require.NoError(t, p.Open(ctx, file, ""))
				if name == "sample" {
					shoot(ctx, t, p, look, r)
				}
				var wrong []string
				require.NoError(t, p.Eval(ctx, pageJS, &wrong))
				require.Empty(t, wrong, look)
				requireQuiet(t, p)
			}
			var wrong []string
			require.NoError(t, p.Eval(ctx, linksJS, &wrong))
			require.Empty(t, wrong)
			requireQuiet(t, p)
			require.NoError(t, p.Close(ctx))
		})
	}
}

// requireQuiet requires that the page asked for nothing but itself, and that nobody complained.
func requireQuiet(t *testing.T, p *browser.Page) {
	t.Helper()
	require.Empty(t, p.Messages())
	for _, request := range p.Requests() {
		require.True(t, strings.HasPrefix(request, "file://") && strings.Contains(request, "/report.html"), request)
	}
}

// All can be read where scripts are switched off, and on paper; a link opens its run there too.
func TestReportWithoutScript(t *testing.T) {
	ctx := t.Context()
	b := browser.Need(t)
	r := sample(t)
	file := filepath.Join(t.TempDir(), "report.html")
	f, err := os.Create(file)
	require.NoError(t, err)
	require.NoError(t, r.HTML(f))
	require.NoError(t, f.Close())
	p, err := b.NewPage(ctx)
	require.NoError(t, err)

	require.NoError(t, p.Look(ctx, browser.Look{NoScript: true}))
	require.NoError(t, p.Open(ctx, file, "#H12-etcd"))
	var seen struct {
		Open, Visible bool
		Top           float64
	}
	const look = `(() => { const e = document.getElementById("H12-etcd"); return {Open: e.closest("details").open, Visible: e.checkVisibility(),
		Top: e.getBoundingClientRect().top} })()`
	require.NoError(t, p.Eval(ctx, look, &seen))
	require.True(t, seen.Open)
	require.True(t, seen.Visible)
	require.Less(t, seen.Top, 400.0)
	var text string
	require.NoError(t, p.Eval(ctx, `document.body.textContent`, &text))
	for _, c := range r.Cells {
		require.Contains(t, text, c.Observed)
		require.Contains(t, text, c.NotRun)
	}

	require.NoError(t, p.Look(ctx, browser.Look{Print: true}))
	require.NoError(t, p.Open(ctx, file, ""))
	var hidden int
	require.NoError(t, p.Eval(ctx, `[...document.querySelectorAll(".body")].filter(e => !e.checkVisibility({contentVisibilityAuto: true})).length`, &hidden))
	require.Zero(t, hidden, "runs that are not printed")
}

// The picture files show what they should where nothing else styles them.
func TestPicturesInABrowser(t *testing.T) {
	ctx := t.Context()
	b := browser.Need(t)
	dir := t.TempDir()
	p, err := b.NewPage(ctx)
	require.NoError(t, err)
	for _, dark := range []bool{false, true} {
		require.NoError(t, p.Look(ctx, browser.Look{Dark: dark, Width: 1200, Height: 700}))
		for name, svg := range sample(t).Pictures() {
			if strings.HasPrefix(name, "H") && !strings.HasPrefix(name, "H7-") {
				continue // they differ in what they show alone
			}
			file := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(file, svg, 0o644))
			require.NoError(t, p.Open(ctx, file, ""), name)
			var seen struct{ Root, Ink string }
			require.NoError(t, p.Eval(ctx, `({Root: document.documentElement.tagName, Ink: getComputedStyle(document.querySelector("text")).fill})`, &seen))
			require.Equal(t, "svg", seen.Root, name)
			require.NotEqual(t, "rgb(0, 0, 0)", seen.Ink, name)
			require.Empty(t, p.Messages(), name)
			require.Len(t, p.Requests(), 1, name)
			if name == "matrix.svg" || name == "acquire-latency.svg" || name == "H7-redis.svg" {
				save(ctx, t, p, fmt.Sprintf("picture-%s-%v", strings.TrimSuffix(name, ".svg"), dark))
			}
		}
	}
}

// shoot makes pictures of the parts of a page, if somebody wants them.
func shoot(ctx context.Context, t *testing.T, p *browser.Page, name string, r *Report) {
	t.Helper()
	if os.Getenv(screenshots) == "" {
		return
	}
	parts := []string{"matrix", "hazards", "costs", "handoff", "takeover", "failover", "contention", "fairness", "waiters", "what-ran"}
	for _, h := range r.Hazards {
		parts = append(parts, h.ID)
	}
	for _, i := range []int{0, len(r.Cells) / 3, len(r.Cells) / 2} {
		if i < len(r.Cells) {
			parts = append(parts, r.Cells[i].ID())
		}
	}
	save(ctx, t, p, name+"-top")
	for _, part := range parts {
		var there bool
		require.NoError(t, p.Eval(ctx, fmt.Sprintf(`(() => { const e = document.getElementById(%q); if (e) e.scrollIntoView(); return !!e })()`, part), &there))
		if there {
			save(ctx, t, p, name+"-"+part)
		}
	}
}

func save(ctx context.Context, t *testing.T, p *browser.Page, name string) {
	t.Helper()
	folder := os.Getenv(screenshots)
	if folder == "" {
		return
	}
	png, err := p.Screenshot(ctx, false)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(folder, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(folder, name+".png"), png, 0o644))
}
