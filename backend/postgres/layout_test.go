package postgres

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/session"
)

// golden are the keys of names. Other programs depend on them: changing one is a major version.
var golden = []struct {
	prefix, name string
	key          int64
}{
	{"lockport:", "nightly-report", 1460986057695863492},
	{"lockport:", "a/b", -3986616242842264740},
	{"lockport:", "Ünïcode", 3779539596001820623},
	{"", "invoice:42", 6688477336110245193},
}

// layoutOf is the layout of options.
func layoutOf(t *testing.T, o Options) session.Layout {
	l, err := o.prepare()
	require.NoError(t, err)
	return l
}

func TestWireGolden(t *testing.T) {
	page, err := os.ReadFile("../../docs/backends/postgres.md")
	require.NoError(t, err)
	for _, g := range golden {
		l := layoutOf(t, Options{Prefix: g.prefix, NoPrefix: g.prefix == ""})
		key, err := l.Key(g.name)
		require.NoError(t, err)
		require.Equal(t, g.key, number(key), "%q", g.name)
		require.Contains(t, string(page), "`"+g.name+"`")
		require.Contains(t, string(page), "`"+strconv.FormatInt(g.key, 10)+"`")
	}
	l := layoutOf(t, Options{})
	set := l.Permit("1460986057695863492", 0)
	for i, want := range []session.Key{"-4532172492480221344", "-5908599515314385188", "-9217001262187737936"} {
		key := set
		if i > 0 {
			key = l.Permit(set, i)
		}
		require.Equal(t, want, key)
		require.Contains(t, string(page), "`"+string(key)+"`")
	}
	hi, lo := side(42)
	require.Equal(t, [2]int32{2092877559, 828149654}, [2]int32{hi, lo})
	require.Equal(t, "1582175877, -2115926015", setUpLock)
}

func TestExactKeys(t *testing.T) {
	l := layoutOf(t, Options{ExactKeys: true})
	for name, want := range map[string]int64{"42": 42, "-7": -7, "0": 0, "9223372036854775807": 1<<63 - 1, "-9223372036854775808": -1 << 63} {
		key, err := l.Key(name)
		require.NoError(t, err)
		require.Equal(t, want, number(key))
	}
	for _, name := range []string{"", "x", "007", "+1", "-0", " 1", "1e3", "9223372036854775808", strings.Repeat("1", 1024)} {
		_, err := l.Key(name)
		require.ErrorIs(t, err, driver.ErrRefused, "%q shares a lock with another name, or has none", name)
	}
}
