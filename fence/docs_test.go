package fence_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// What docs/fencing.md shows of Go and Lua is what is compiled and run here, word for word. Its SQL is held by the tests of sqlfence.
func TestDocumentedCode(t *testing.T) {
	page, err := os.ReadFile("../docs/fencing.md")
	require.NoError(t, err)
	sources := map[string]string{"go": "*/example_test.go", "lua": "*/lua/*.lua"}
	found := 0
	for _, block := range regexp.MustCompile("(?s)```(go|lua)\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		files, err := filepath.Glob(sources[block[1]])
		require.NoError(t, err)
		var all strings.Builder
		for _, file := range append(files, "example_test.go") {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			all.Write(text)
		}
		require.Contains(t, all.String(), block[2])
		found++
	}
	require.Equal(t, 4, found)
}
