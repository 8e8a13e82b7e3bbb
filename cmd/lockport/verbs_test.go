package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestHelp(t *testing.T) {
	t.Parallel()
	code, all, _ := inside(t, "help")
	require.Equal(t, 0, code)
	for _, v := range verbs() {
		require.Contains(t, all, "\n  "+v.name+" ")
		for _, args := range [][]string{{v.name, "--help"}, {v.name, "-h"}, {"help", v.name}, {"--help", v.name}} {
			code, stdout, stderr := inside(t, args...)
			require.Equal(t, 0, code, "%q: %s", args, stderr)
			require.Equal(t, v.help(), stdout, "%q", args)
			require.Empty(t, stderr)
		}
		require.True(t, strings.HasPrefix(v.help(), "Usage: lockport "+v.name), v.name)
		require.Contains(t, v.help(), "Example:\n  lockport "+v.name)
		for line := range strings.Lines(v.help()) {
			require.LessOrEqual(t, len(line), 130, line)
		}
	}
	code, stdout, stderr := inside(t)
	require.Equal(t, 64, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "\n  run ")
}

func TestVersion(t *testing.T) {
	t.Parallel()
	stdout, _ := ran(t, 0, "file:", "version")
	require.Regexp(t, `^lockport \S+ go1\.\S+ \w+/\w+\n$`, stdout)
	same, _ := ran(t, 0, "file:", "--version")
	require.Equal(t, stdout, same)
}
