package servers

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

// verdict is a testing.TB that records what a Need function makes of its test.
type verdict struct {
	testing.TB
	skipped, fatal, log string
	failed              bool
	cleanups            []func()
}

func (v *verdict) Helper()                    {}
func (v *verdict) Skip(args ...any)           { v.skipped = fmt.Sprint(args...); runtime.Goexit() }
func (v *verdict) Fatal(args ...any)          { v.fatal = fmt.Sprint(args...); runtime.Goexit() }
func (v *verdict) Cleanup(f func())           { v.cleanups = append(v.cleanups, f) }
func (v *verdict) Failed() bool               { return v.failed }
func (v *verdict) Logf(form string, a ...any) { v.log += fmt.Sprintf(form, a...) }
func (v *verdict) run(body func(t testing.TB)) *verdict {
	done := make(chan struct{})
	go func() { defer close(done); body(v) }()
	<-done
	for _, f := range v.cleanups {
		f()
	}
	return v
}

func setShort(t *testing.T, value string) {
	old := flag.Lookup("test.short").Value.String()
	require.NoError(t, flag.Set("test.short", value))
	t.Cleanup(func() { require.NoError(t, flag.Set("test.short", old)) })
}

func TestNeed(t *testing.T) {
	missing := fmt.Errorf("start: %w", &NotInstalled{Program: "redis-server", Install: "apt-get install it"})
	for _, c := range []struct {
		name, require, short string
		err                  error
		skipped, fatal       string
	}{
		{name: "missing", err: missing, skipped: "apt-get install it"},
		{name: "missing, others required", require: "etcd,postgres", err: missing, skipped: "apt-get install it"},
		{name: "missing, all required", require: "all", err: missing, fatal: "apt-get install it"},
		{name: "missing, listed", require: "etcd, redis", err: missing, fatal: "apt-get install it"},
		{name: "missing, listed by its program", require: "redis-server", err: missing, fatal: "apt-get install it"},
		{name: "broken", err: errors.New("no luck"), fatal: "no luck"},
		{name: "short", short: "true", skipped: "-short"},
		{name: "short, all required", short: "true", require: "all", skipped: "-short"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(requireVariable, c.require)
			setShort(t, "false")
			if c.short != "" {
				setShort(t, c.short)
			}
			v := new(verdict).run(func(tb testing.TB) {
				need(tb, "redis", func(context.Context) (*Redis, error) { return nil, c.err })
			})
			require.Contains(t, v.skipped, c.skipped)
			require.Equal(t, c.skipped == "", v.skipped == "")
			require.Contains(t, v.fatal, c.fatal)
			require.Equal(t, c.fatal == "", v.fatal == "")
			require.Empty(t, v.cleanups)
		})
	}
}

func TestNeedClosesAndShowsTheLogOfFailures(t *testing.T) {
	NeedRedis(t, RedisOptions{})
	for _, failed := range []bool{false, true} {
		var r *Redis
		v := (&verdict{failed: failed}).run(func(tb testing.TB) { r = NeedRedis(tb, RedisOptions{Own: true}) })
		require.NoDirExists(t, r.Dir())
		require.False(t, r.proc.alive())
		if failed {
			require.Contains(t, v.log, "Ready to accept connections")
		} else {
			require.Empty(t, v.log)
		}
	}
}

func wantForeign(t *testing.T, r *Redis) {
	t.Helper()
	for _, control := range []func() error{
		r.Kill, r.Stop, r.Freeze, r.Thaw, func() error { return r.Restart(t.Context()) },
	} {
		require.ErrorIs(t, control(), errors.ErrUnsupported)
	}
	require.Zero(t, r.Pid())
	require.Empty(t, r.Dir())
	require.Empty(t, r.Log())
	_, err := StartReplica(t.Context(), r)
	require.ErrorIs(t, err, errors.ErrUnsupported)
	require.NoError(t, r.Close())
	do(t, r, "PING")
}

func TestSharedRedis(t *testing.T) {
	r := SharedRedis(t)
	wantForeign(t, r)
	t.Run("again", func(t *testing.T) { require.Same(t, r, SharedRedis(t)) })
	do(t, r, "PING")
}

func TestRedisFromOutside(t *testing.T) {
	outside := NeedRedis(t, RedisOptions{Own: true, Password: "p@ss word"})
	t.Setenv(redisURLVariable, outside.URL())
	r := NeedRedis(t, RedisOptions{})
	require.Equal(t, outside.URL(), r.URL())
	require.Equal(t, outside.Addr(), r.Addr())
	wantForeign(t, r)

	for _, o := range []RedisOptions{{Own: true}, {Save: "1 1"}} {
		own := NeedRedis(t, o)
		require.NotEqual(t, outside.Addr(), own.Addr())
		require.NoError(t, own.Kill())
	}
}

func TestRedisFromOutsideThatIsNone(t *testing.T) {
	setShort(t, "false")
	for _, url := range []string{"::", "http://127.0.0.1:1", "redis://:secret@127.0.0.1:1/3", "redis://:secret@127.0.0.1:1"} {
		t.Setenv(redisURLVariable, url)
		v := new(verdict).run(func(tb testing.TB) { NeedRedis(tb, RedisOptions{}) })
		require.Contains(t, v.fatal, redisURLVariable)
		require.NotContains(t, v.fatal, "secret")
	}
}
