package servers

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// verdict is a testing.TB that records how a Need function ends its test.
type verdict struct {
	testing.TB
	end string
}

func (v *verdict) Helper()           {}
func (v *verdict) Skip(args ...any)  { v.end = "skip: " + fmt.Sprint(args...); runtime.Goexit() }
func (v *verdict) Fatal(args ...any) { v.end = "fail: " + fmt.Sprint(args...); runtime.Goexit() }

// A missing server skips a test and says what to install, or fails it if LOCKPORT_TEST_REQUIRE says so. A server that does not start fails it.
func TestNeed(t *testing.T) {
	t.Setenv(withoutVariable, "redis-server")
	_, missing := StartRedis(t.Context(), RedisOptions{})
	const install = "redis-server not found: apt-get install redis-server"
	short := flag.Lookup("test.short").Value
	old := short.String()
	defer func() { require.NoError(t, short.Set(old)) }()
	for _, c := range []struct {
		require, short string
		err            error
		want           string
	}{
		{"", "false", missing, "skip: " + install},
		{"etcd,postgres", "false", missing, "skip: " + install},
		{"all", "false", missing, "fail: " + install},
		{"etcd, redis-server", "false", missing, "fail: " + install},
		{"", "false", errors.New("no luck"), "fail: no luck"},
		{"all", "true", nil, "skip: needs Redis: run go test without -short"},
	} {
		t.Setenv(requireVariable, c.require)
		require.NoError(t, short.Set(c.short))
		var v verdict
		var need sync.WaitGroup
		need.Go(func() { Need(&v, "Redis", false, func() (*Redis, error) { return nil, c.err }) })
		need.Wait()
		require.True(t, strings.HasPrefix(v.end, c.want), "%+v: %s", c, v.end)
	}
}
