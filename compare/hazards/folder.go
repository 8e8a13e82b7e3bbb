package hazards

import (
	"errors"
	"os"
	"path/filepath"
)

// moveAway moves a folder to where nobody looks for it, and returns what moves it back.
func moveAway(path string) (back func() error, err error) {
	parent, err := os.MkdirTemp(filepath.Dir(path), "old-")
	if err != nil {
		return nil, err
	}
	away := filepath.Join(parent, filepath.Base(path))
	return func() error { return os.Rename(away, path) }, os.Rename(path, away)
}

// replaceFolder has an empty folder take the place of another.
func replaceFolder(path string) error {
	_, err := moveAway(path)
	return errors.Join(err, os.Mkdir(path, 0o700))
}
