package compare

import (
	"bytes"
	"io"
	"os"
	"path/filepath"

	"github.com/lockport/lockport/internal/lab/report"
)

// The files that [Write] makes in its folder.
const (
	HTMLFile     = "report.html"
	MarkdownFile = "report.md"
	JSONFile     = "report.json"
	PictureDir   = "pictures"
)

// Write writes a report into the folder dir, which is made if it is not there: as one HTML file, as Markdown with its pictures, and as
// JSON. What an earlier report left there under these names is replaced.
func Write(dir string, r *report.Report) error {
	pictures := filepath.Join(dir, PictureDir)
	if _, err := os.Stat(filepath.Join(dir, JSONFile)); err == nil { // then they are those of an earlier report, and not somebody's photographs
		if err := os.RemoveAll(pictures); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(pictures, 0o755); err != nil {
		return err
	}
	for name, write := range map[string]func(io.Writer) error{HTMLFile: r.HTML, MarkdownFile: r.Markdown, JSONFile: r.JSON} {
		if err := writeFile(filepath.Join(dir, name), write); err != nil {
			return err
		}
	}
	for name, svg := range r.Pictures() {
		if err := os.WriteFile(filepath.Join(pictures, name), svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// writeFile replaces a file when all of it is written: a full disk leaves the former one.
func writeFile(name string, write func(io.Writer) error) error {
	var text bytes.Buffer
	if err := write(&text); err != nil {
		return err
	}
	fresh := name + ".new"
	if err := os.WriteFile(fresh, text.Bytes(), 0o644); err != nil {
		_ = os.Remove(fresh)
		return err
	}
	return os.Rename(fresh, name)
}
