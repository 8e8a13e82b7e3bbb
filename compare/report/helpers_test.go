package report

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// sample is a report with every class, variants, cells that were not run, a missing server and all costs. Its figures are made up.
func sample(t testing.TB) *Report {
	t.Helper()
	f, err := os.Open("testdata/sample.json")
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	r, err := Read(f)
	require.NoError(t, err)
	return r
}
