package redisscript

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLayoutGolden(t *testing.T) {
	for _, v := range []struct{ prefix, name, key, queue string }{
		{"lockport:", "nightly-report", "lockport:nightly-report", "lockport.side:{lockport:nightly-report}:queue"},
		{"lockport:", "a b/ä:*", "lockport:a b/ä:*", "lockport.side:{lockport:a b/ä:*}:queue"},
		{"lockport:", "{user1}.x", "lockport:%7Buser1%7D.x", "lockport.side:{lockport:%7Buser1%7D.x}:queue"},
		{"lockport:", "100%", "lockport:100%25", "lockport.side:{lockport:100%25}:queue"},
		{"lockport:", "%7B", "lockport:%257B", "lockport.side:{lockport:%257B}:queue"},
		{"", "invoice:42", "invoice:42", "lockport.side:{invoice:42}:queue"},
		{"app/locks/", "x", "app/locks/x", "lockport.side:{app/locks/x}:queue"},
	} {
		l, err := NewLayout(v.prefix, v.prefix == "")
		require.NoError(t, err)
		require.Equal(t, v.key, l.Key(v.name))
		require.Equal(t, v.queue, Side(v.key, "queue"))
		name, ok := l.Name(v.key)
		require.Equal(t, []any{v.name, true, v.key, v.key}, []any{name, ok, LockOf(v.key), LockOf(v.queue)})
	}
	require.Equal(t, "lp1:0123:host/1/x", Value("0123:host/1/x"))
	require.Equal(t, "lockport.side:{}:last-token", LastToken("lockport:nightly-report", false))
	require.Equal(t, "lockport.side:{21468}:last-token", LastToken("lockport:nightly-report", true))
	require.Equal(t, 12739, slot("123456789"), "the Cluster specification's own example: 0x31C3")
}

func TestKeysThatNoNameHas(t *testing.T) {
	l := Layout{Prefix: "lockport:"}
	for _, key := range []string{"", "lockport:", "other:x", "lockport:{x}", "lockport:%", "lockport:%7b", "lockport:%41"} {
		_, ok := l.Name(key)
		require.False(t, ok, key)
	}
}

func FuzzLayout(f *testing.F) {
	f.Add("lockport:", "a", "b")
	f.Add("", "%7B", "{")
	f.Add("", "%", "%25")
	f.Fuzz(func(t *testing.T, prefix, a, b string) {
		l, err := NewLayout(prefix, prefix == "")
		if err != nil || a == "" || b == "" {
			return
		}
		ka, kb := l.Key(a), l.Key(b)
		require.Equal(t, a == b, ka == kb, "distinct names never share a lock")
		require.False(t, strings.ContainsAny(ka, "{}"))
		name, ok := l.Name(ka)
		require.True(t, ok)
		require.Equal(t, a, name)
	})
}
