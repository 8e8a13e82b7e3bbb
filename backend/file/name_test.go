package file

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The golden vectors of the documentation: changing one is a major version.
func TestFileName(t *testing.T) {
	for name, want := range map[string]string{
		"nightly-report":          "nightly-report-6743ba10a2b2c4879cf6af5c75140be7135b22597ac428e490673767b538d53e.lock",
		"jobs/Ünïcode #1":         "jobs__n_code__1-2b2c862046eed50594a07228610c66df37afa785b3da86dc6616857be4ca0eab.lock",
		".hidden":                 "_hidden-1692419006a88aab3372cf255367e2ccbc605066a5130dbeee69cb823d803eb5.lock",
		strings.Repeat("a", 1024): "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-2edc986847e209b4016e141a6dc8716d3207350f416969382d431539bf292e4a.lock",
	} {
		require.Equal(t, want, FileName(name))
	}
}
