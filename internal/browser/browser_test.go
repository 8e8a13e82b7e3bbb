package browser

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

const testPage = `<!DOCTYPE html><title>a page</title>
<style>@media (prefers-color-scheme: dark) { body { background: rgb(1, 2, 3) } }</style>
<p id=here>text</p><noscript>none</noscript>
<script>document.title = "changed"; console.warn("a warning"); fetch("https://unreachable.invalid/").catch(() => {}); throw new Error("thrown")</script>`

func open(t *testing.T, p *Page, text string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "a page.html")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o644))
	require.NoError(t, p.Open(t.Context(), file, ""))
}

func TestPage(t *testing.T) {
	ctx := t.Context()
	b := Need(t)
	p, err := b.NewPage(ctx)
	require.NoError(t, err)

	require.NoError(t, p.Look(ctx, Look{Width: 375, Height: 700, Scale: 2, Dark: true, Still: true}))
	open(t, p, testPage)
	var seen struct {
		Title, Background string
		Width             int
		Still             bool
	}
	require.NoError(t, p.Eval(ctx, `({Title: document.title, Background: getComputedStyle(document.body).backgroundColor, Width: innerWidth,
		Still: matchMedia("(prefers-reduced-motion: reduce)").matches})`, &seen))
	require.Equal(t, "changed", seen.Title)
	require.Equal(t, "rgb(1, 2, 3)", seen.Background)
	require.True(t, seen.Still)
	require.ErrorContains(t, p.Eval(ctx, `nowhere.nothing`, nil), "nowhere")

	// What the page asks for, and what it says.
	require.Contains(t, p.Requests(), "https://unreachable.invalid/")
	said := bytes.NewBufferString("")
	for _, m := range p.Messages() {
		said.WriteString(m)
	}
	require.Contains(t, said.String(), "a warning")
	require.Contains(t, said.String(), "thrown")

	shot, err := p.Screenshot(ctx, false)
	require.NoError(t, err)
	image, err := png.DecodeConfig(bytes.NewReader(shot))
	require.NoError(t, err)
	require.Equal(t, []int{750, 1400}, []int{image.Width, image.Height})

	// Without script, light, printed.
	require.NoError(t, p.Look(ctx, Look{NoScript: true, Print: true}))
	open(t, p, testPage)
	require.NoError(t, p.Eval(ctx, `({Title: document.title, Background: getComputedStyle(document.body).backgroundColor, Width: innerWidth,
		Still: !matchMedia("print").matches})`, &seen))
	require.Equal(t, "a page", seen.Title)
	require.Equal(t, "rgba(0, 0, 0, 0)", seen.Background)
	require.Equal(t, 1280, seen.Width)
	require.False(t, seen.Still)
	require.Len(t, p.Requests(), 1)
	require.Empty(t, p.Messages())

	// A page that is not there.
	require.ErrorContains(t, p.Open(ctx, filepath.Join(t.TempDir(), "nothing.html"), ""), "ERR_FILE_NOT_FOUND")
	require.NoError(t, p.Close(ctx))
}

// A browser that is closed leaves nothing behind.
func TestClose(t *testing.T) {
	b := Need(t)
	pid := b.cmd.Process.Pid
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	require.NoDirExists(t, b.profile)
	require.Error(t, alive(pid))
	_, err := b.NewPage(t.Context())
	require.Error(t, err)
}

// alive reports an error if there is no process of that id.
func alive(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Signal(syscall.Signal(0))
}
