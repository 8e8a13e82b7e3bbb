package servers

import (
	"errors"
	"flag"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// verdict is a testing.TB that records what a Need function does to its test.
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
	for name, c := range map[string]struct {
		require         string
		short           bool
		err             error
		skipped, failed string
	}{
		"missing":                        {err: missing, skipped: "apt-get install it"},
		"missing, others required":       {require: "etcd,postgres", err: missing, skipped: "apt-get install it"},
		"missing, all required":          {require: "all", err: missing, failed: "apt-get install it"},
		"missing, listed":                {require: "etcd, redis", err: missing, failed: "apt-get install it"},
		"missing, listed by its program": {require: "redis-server", err: missing, failed: "apt-get install it"},
		"broken":                         {err: errors.New("no luck"), failed: "no luck"},
		"short":                          {short: true, skipped: "-short"},
		"short, all required":            {short: true, require: "all", skipped: "-short"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(requireVariable, c.require)
			setShort(t, fmt.Sprint(c.short))
			v := new(verdict).run(func(tb testing.TB) {
				Need(tb, "redis", func() (*Redis, error) { return nil, c.err }, "redis")
			})
			require.Contains(t, v.skipped, c.skipped)
			require.Equal(t, c.skipped == "", v.skipped == "")
			require.Contains(t, v.fatal, c.failed)
			require.Equal(t, c.failed == "", v.fatal == "")
			require.Empty(t, v.cleanups)
		})
	}
}

func TestNeedClosesAndShowsTheLogOfFailures(t *testing.T) {
	SharedRedis(t)
	for _, failed := range []bool{false, true} {
		var r *Redis
		v := (&verdict{failed: failed}).run(func(tb testing.TB) { r = NeedRedis(tb, RedisOptions{}) })
		require.NoDirExists(t, r.Dir())
		require.False(t, r.proc.Alive())
		require.Equal(t, failed, strings.Contains(v.log, "Ready to accept connections"))
	}
}

func TestMissingProgramsSayWhatToInstall(t *testing.T) {
	t.Setenv(withoutVariable, "java,redis-server,redis-cli")
	t.Setenv(requireVariable, "")
	setShort(t, "false")
	for program, need := range map[string]func(testing.TB){
		"redis-server":    func(t testing.TB) { NeedSentinel(t, SentinelOptions{}) },
		"redis-cli":       func(t testing.TB) { NeedProgram(t, "redis-cli") },
		"java":            func(t testing.TB) { NeedCurator(t) },
		"no-such-jar.jar": func(t testing.TB) { _, err := classpath("apt-get install it", "no-such-jar"); NeedInstalled(t, err) },
	} {
		v := new(verdict).run(need)
		require.Contains(t, v.skipped, program+" not found: apt-get install ")
		t.Setenv(requireVariable, "all")
		require.Contains(t, new(verdict).run(need).fatal, v.skipped)
		t.Setenv(requireVariable, "")
	}
	t.Setenv("PATH", t.TempDir())
	_, err := goTool("etcd-current", "etcdserver", "go.etcd.io/etcd/server/v3")()
	require.ErrorContains(t, err, "etcd-current not found: go tool builds it")
	require.NotContains(t, Versions(t.Context()), "redis")
}
