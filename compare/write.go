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
	HTMLFile   = "report.html"
	JSONFile   = "report.json"
	PictureDir = "pictures"
)

// Write writes a report into the folder dir, and makes the folder if needed: as one HTML file, its pictures, and JSON. It
// replaces files of these names, and deletes none.
func Write(dir string, r *report.Report) error {
	if err := os.MkdirAll(filepath.Join(dir, PictureDir), 0o755); err != nil {
		return err
	}
	files := make(map[string][]byte)
	for name, write := range map[string]func(io.Writer) error{HTMLFile: r.HTML, JSONFile: r.JSON} {
		var text bytes.Buffer
		if err := write(&text); err != nil {
			return err
		}
		files[name] = text.Bytes()
	}
	for name, svg := range r.Pictures() {
		files[filepath.Join(PictureDir, name)] = svg
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
