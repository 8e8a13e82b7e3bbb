package fence_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// docs/fencing.md shows the worker, its error and the Lua of this package word for word. Package house builds the page's Go; sqlfence's tests
// check its SQL.
func TestDocumentedCode(t *testing.T) {
	read := func(pattern string) string {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		var all strings.Builder
		for _, file := range files {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			all.Write(text)
		}
		return all.String()
	}
	page := read("../docs/fencing.md")
	for pattern, source := range map[string]string{
		"(?s)(type account struct.*?)```": read("example_test.go"),
		`(?m)^    (fence: fencing .*)$`:   read("example_test.go"),
		"(?s)```lua\n(.*?)```":            read("*/lua/*.lua"),
	} {
		found := regexp.MustCompile(pattern).FindStringSubmatch(page)
		require.NotNil(t, found, pattern)
		require.Contains(t, source, found[1])
	}
}
