package servers

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// verdict is a testing.TB that records what a Need function does to its test.
type verdict struct {
	testing.TB
	skipped, fatal string
}

func (v *verdict) Helper()           {}
func (v *verdict) Skip(args ...any)  { v.skipped = fmt.Sprint(args...); runtime.Goexit() }
func (v *verdict) Fatal(args ...any) { v.fatal = fmt.Sprint(args...); runtime.Goexit() }

// A missing server skips a test and says what to install, or fails it if LOCKPORT_TEST_REQUIRE says so. A server that does not start fails it.
func TestNeed(t *testing.T) {
	t.Setenv(withoutVariable, "redis-server")
	_, missing := StartRedis(t.Context(), RedisOptions{})
	const install = "redis-server not found: apt-get install redis-server"
	short := flag.Lookup("test.short").Value
	old := short.String()
	defer func() { require.NoError(t, short.Set(old)) }()
	for name, c := range map[string]struct {
		require       string
		short         bool
		err           error
		skipped, fail string
	}{
		"missing":                  {err: missing, skipped: install},
		"missing, others required": {require: "etcd,postgres", err: missing, skipped: install},
		"missing, all required":    {require: "all", err: missing, fail: install},
		"missing, listed":          {require: "etcd, redis-server", err: missing, fail: install},
		"MySQL, all required":      {require: "all", err: &NotInstalled{Program: mysqld}, skipped: mysqld},
		"MySQL, listed":            {require: mysqld, err: &NotInstalled{Program: mysqld}, fail: mysqld},
		"broken":                   {err: errors.New("no luck"), fail: "no luck"},
		"short, all required":      {short: true, require: "all", skipped: "-short"},
	} {
		t.Setenv(requireVariable, c.require)
		require.NoError(t, short.Set(fmt.Sprint(c.short)))
		var v verdict
		done := make(chan struct{})
		go func() {
			defer close(done)
			Need(&v, "redis", false, func() (*Redis, error) { return nil, c.err })
		}()
		<-done
		require.Contains(t, v.skipped, c.skipped, name)
		require.Equal(t, c.skipped == "", v.skipped == "", name)
		require.Contains(t, v.fatal, c.fail, name)
		require.Equal(t, c.fail == "", v.fatal == "", name)
	}
}
