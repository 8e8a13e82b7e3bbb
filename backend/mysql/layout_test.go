package mysql

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/session"
)

// TestKeyGolden: other versions and programs share these keys. Changing one is a major version.
func TestKeyGolden(t *testing.T) {
	for _, c := range []struct{ prefix, name, key string }{
		{"lockport:", "nightly-report", "144677142ec2a2c4a5742224d5b507d70358e7dc1f8047df1ba3865273aa1712"},
		{"lockport:", "Nightly-Report", "c5af0596a9254ba897274d8d75c10ba7affd96aa6727fa3281f0ede88c25e64f"},
		{"lockport:", "é/ 100%", "4d14b38fbbda0cdee95e9410eb2ab60d1afb388be697f0d1d656e381ce3447f5"},
		{"app:", "nightly-report", "795e1eec993324d4065536f13e92038a3f50106d9833a7cb5653e30f5e9eef59"},
		{"", "nightly-report", "6743ba10a2b2c4879cf6af5c75140be7135b22597ac428e490673767b538d53e"},
	} {
		key := peer.Must(layoutOf(Options{Prefix: c.prefix, NoPrefix: c.prefix == ""}).Key(c.name))(t)
		require.Equal(t, c.key, string(key), "%q %q", c.prefix, c.name)
		require.Len(t, key, maxKey)
	}
	l := layoutOf(Options{})
	set := l.Permit("144677142ec2a2c4a5742224d5b507d70358e7dc1f8047df1ba3865273aa1712", 0)
	require.Equal(t, session.Key("404de2bbab585cd401b541f0fb94ba0adf279f06b65c5e84067c6fe58d9ab59f"), set)
	require.Equal(t, session.Key("a06655bfe11ea786587ddddb396bb48da46bb40d37a77175e959b9438a265a7c"), l.Permit(set, 1))
	require.Equal(t, session.Key("266ad8157ba8950b6f739f182c97caf650e95ad3f20af8c898f686f27928aefe"), l.Permit(set, 2))
}

func TestExactKeys(t *testing.T) {
	l := layoutOf(Options{ExactKeys: true})
	for _, name := range []string{"a", "Nightly Report", strings.Repeat("x", maxKey), `a"b;--`} {
		require.Equal(t, name, string(peer.Must(l.Key(name))(t)))
	}
	for _, name := range []string{strings.Repeat("x", maxKey+1), "é", "a\nb", "it's", `a\`, "a "} {
		require.ErrorIs(t, peer.ErrOf(l.Key(name)), driver.ErrRefused, name)
	}
}
