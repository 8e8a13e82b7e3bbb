package house

import (
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// file is a Markdown page, a Go file or a script of the repository.
type file struct {
	path, text string
	nested     bool // in a nested module
}

// readFiles reads the files below the root of fsys, except in folders that the go command ignores.
func readFiles(t testing.TB, fsys fs.FS) (all []file) {
	t.Helper()
	nested := "none" // the latest folder of another module
	err := fs.WalkDir(fsys, ".", func(name string, entry fs.DirEntry, err error) error {
		switch base := path.Base(name); {
		case err != nil || name == ".":
			return err
		case entry.IsDir() && (base == "testdata" || base[0] == '.' || base[0] == '_'):
			return fs.SkipDir
		case entry.IsDir() && exists(fsys, name+"/go.mod"):
			nested = name
		case strings.HasSuffix(base, ".md"), strings.HasSuffix(base, ".go"), strings.HasSuffix(base, ".sh"):
			text, err := fs.ReadFile(fsys, name)
			all = append(all, file{name, string(text), strings.HasPrefix(name, nested+"/")})
			return err
		}
		return nil
	})
	require.NoError(t, err)
	return all
}

// exists reports whether fsys has a file or folder of that name.
func exists(fsys fs.FS, name string) bool {
	_, err := fs.Stat(fsys, path.Clean(name))
	return err == nil
}
