package servers

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// What is installed says its version.
func TestVersions(t *testing.T) {
	r := NeedRedis(t, RedisOptions{Own: true})
	versions := Versions(t.Context())
	require.Regexp(t, `^\d+\.\d+`, versions["redis"])
	require.Contains(t, r.Log(), "Redis version="+versions["redis"])
	for kind, v := range versions {
		require.Regexp(t, `^\d+\.\d+`, v, kind)
	}
}
