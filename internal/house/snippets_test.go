package house

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Readers paste code from the pages, so it must work as it stands.
//
//   - A block fenced as ```go is a whole file with imports. It is built in the page's module, the one with the nearest go.mod.
//   - ```go in bench is built in the module of the folder bench, if it needs that module's requirements.
//   - ```go ignore: REASON is not built. Use it rarely.
//   - A line of a ```sh block is run if it calls lockport and needs no server. Server URLs are replaced by the URL of a folder.
//     Every other line must start with a key of notRun.
var (
	goFence = regexp.MustCompile(`^go(?: in ([a-z/]+)| ignore: (\S.*))?$`)
	server  = regexp.MustCompile(`[a-z+]+://\S+`)
	code    = regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```") // a fenced block
)

// notRun maps prefixes of shell lines that are not run to the reasons.
var notRun = map[string]string{
	"make ":                "starts servers, and runs for minutes",
	"go get ":              "fetches from the network",
	"go mod ":              "changes the module that it runs in",
	"go install ":          "fetches from the network",
	"go test ":             "is a test of its own",
	"cd bench ":            "measures for minutes",
	"cd referee ":          "starts servers, and runs for minutes",
	"lockport compare":     "starts servers, and runs for minutes; tested in cmd/lockport",
	"lockport conform ":    "takes half a minute; tested in cmd/lockport",
	"lockport run --keep ": "runs until a signal; tested in cmd/lockport",
}

// block is one fenced block of a page.
type block struct{ where, page, info, text string } // where is page:line, info the text after the fence

// blocks returns the blocks of all pages in a language.
func blocks(t *testing.T, language string) (all []block) {
	for _, page := range allFiles(t, ".md") {
		for _, at := range code.FindAllStringSubmatchIndex(page.text, -1) {
			where := fmt.Sprintf("%s:%d", page.path, 1+strings.Count(page.text[:at[0]], "\n"))
			if info := page.text[at[2]:at[3]]; info == language || strings.HasPrefix(info, language+" ") {
				all = append(all, block{where, page.path, info, page.text[at[4]:at[5]]})
			}
		}
	}
	return all
}

// TestGoBlocks builds the Go blocks of all pages, with one run of go vet for each module.
func TestGoBlocks(t *testing.T) {
	byModule := make(map[string][]block)
	ignored := 0
	for _, b := range blocks(t, "go") {
		fence := goFence.FindStringSubmatch(b.info)
		require.NotNil(t, fence, "%s: fence a Go block as go, go in FOLDER, or go ignore: REASON", b.where)
		if fence[2] != "" {
			ignored++
			t.Logf("%s: not built: %s", b.where, fence[2])
			continue
		}
		dir := cmp.Or(fence[1], path.Dir(b.page))
		for !exists(repository, dir+"/go.mod") {
			dir = path.Dir(dir)
		}
		byModule[dir] = append(byModule[dir], b)
	}
	require.NotEmpty(t, byModule["."])
	require.Less(t, ignored, 6, "too many Go blocks are not built")
	for dir, all := range byModule {
		root := filepath.Join("..", "..", filepath.FromSlash(dir))
		temp, err := os.MkdirTemp(root, "_blocks") // inside the module, but ./... ignores it
		require.NoError(t, err)
		defer os.RemoveAll(temp)
		vet := exec.Command("go", "vet")
		vet.Dir = root
		for _, b := range all {
			folder := strings.NewReplacer("/", "-", ":", "-line-").Replace(b.where)
			file := filepath.Join(temp, folder, "block.go")
			if strings.Contains(b.text, "\nfunc Test") {
				file = filepath.Join(temp, folder, "block_test.go")
			}
			require.NoError(t, os.Mkdir(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, []byte(b.text), 0o644))
			vet.Args = append(vet.Args, "./"+filepath.Base(temp)+"/"+folder)
			t.Logf("%s: built in %s", b.where, dir)
		}
		out, err := vet.CombinedOutput()
		if err != nil {
			t.Errorf("Go blocks of pages do not build (the rules are at the top of snippets_test.go): %v\n%s", err, out)
		}
	}
}

// TestShellBlocks runs the lines of shell blocks that need no server.
func TestShellBlocks(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command: run go test without -short")
	}
	temp := t.TempDir()
	build := exec.Command("go", "build", "-o", filepath.Join(temp, "lockport"), "./cmd/lockport")
	build.Dir = filepath.Join("..", "..")
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	// What the reader has: a lock server and a program.
	require.NoError(t, os.Mkdir(filepath.Join(temp, "locks"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(temp, "report.sh"), []byte("#!/bin/sh\n"), 0o700))
	ran := 0
	for _, b := range blocks(t, "sh") {
	lines:
		for line := range strings.Lines(b.text) {
			line = strings.TrimSpace(line)
			if line == "" || strings.HasPrefix(line, "#") {
				continue
			}
			for beginning, reason := range notRun {
				if strings.HasPrefix(line, beginning) {
					t.Logf("%s: not run, because it %s: %s", b.where, reason, line)
					continue lines
				}
			}
			line = strings.Replace(line, "go run ./cmd/lockport", "lockport", 1)
			if !strings.HasPrefix(line, "lockport ") {
				t.Errorf("%s: calls no lockport command and matches no prefix in notRun: %s", b.where, line)
				continue
			}
			ran++
			command := exec.Command("sh", "-c", server.ReplaceAllString(line, "file:"+temp+"/locks"))
			command.Dir = temp
			command.Env = append(os.Environ(), "PATH="+temp+":"+os.Getenv("PATH"))
			out, err := command.CombinedOutput()
			// Exit code 1 is fine: nobody holds the lock, or the doctor found something.
			if exit := (&exec.ExitError{}); err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1) {
				t.Errorf("%s: %s: %v\n%s", b.where, line, err, out)
			}
		}
	}
	require.Greater(t, ran, 2)
}

// A test run fails if a folder's tests fail.
func TestATestRunFails(t *testing.T) {
	dir := t.TempDir()
	program, err := filepath.Abs("../../tools/testrun/main.go")
	require.NoError(t, err)
	for file, text := range map[string]string{"go.mod": "module x", "x_test.go": "package x\nimport \"testing\"\nfunc TestX(t *testing.T) { t.Fail() }"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644))
	}
	run := exec.Command("go", "run", program)
	run.Dir = dir
	output, err := run.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(output), ".: exit status 1\n")
}
