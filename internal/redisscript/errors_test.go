package redisscript

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"strings"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestClassify(t *testing.T) {
	for _, v := range []struct {
		err   error
		sent  bool
		class error
	}{
		{io.EOF, true, driver.ErrUnknown},
		{io.EOF, false, driver.ErrUnavailable},
		{errors.Join(goredis.Nil, goredis.Nil), false, driver.ErrUnavailable}, // of two sentinels
		{&net.OpError{Op: "dial", Err: errors.New("lookup h\n: no such host")}, false, driver.ErrUnavailable},
		{&net.OpError{Op: "remote error", Err: errors.New("tls: expired certificate")}, true, driver.ErrRefused},
		{goredis.ErrClosed, true, driver.ErrUnavailable},
		{goredis.ErrPoolTimeout, true, driver.ErrUnavailable},
		{goredis.ErrPoolExhausted, true, driver.ErrUnavailable},
		{ReplyError("LOADING Redis is loading the dataset in memory"), true, driver.ErrUnavailable},
		{ReplyError("MASTERDOWN Link with MASTER is down"), true, driver.ErrUnavailable},
		{ReplyError("CLUSTERDOWN The cluster is down"), true, driver.ErrUnavailable},
		{ReplyError("TRYAGAIN Multiple keys request during rehashing of slot"), true, driver.ErrUnavailable},
		{ReplyError("READONLY You can't write against a read only replica."), true, driver.ErrUnavailable},
		{ReplyError("NOREPLICAS Not enough good replicas to write."), true, driver.ErrUnavailable},
		{ReplyError("BUSY Redis is busy running a script."), true, driver.ErrUnavailable},
		{ReplyError("MISCONF Redis is configured to save RDB snapshots"), true, driver.ErrUnavailable},
		{ReplyError("ERR Script attempted to access a non local key in a cluster node script: f_1"), true, driver.ErrUnknown},
		{ReplyError("ERR Error running script (call to f_1): @user_script:5: @user_script: 5: Lua script attempted to access a non local key in a cluster node"), true, driver.ErrUnknown},
		{ReplyError("OOM command not allowed when used memory > 'maxmemory'."), true, driver.ErrUnavailable},
		{ReplyError("ERR Error running script (call to f_1): @user_script:4: -OOM command not allowed"), true, driver.ErrUnavailable},
		{ReplyError("ERR Error running script (call to f_1): @user_script:41: @user_script: 41: -OOM command not allowed"), true, driver.ErrUnavailable},
		{ReplyError("@user_script: 34: -READONLY You can't write against a read only replica."), true, driver.ErrUnavailable},
		{ReplyError("ERR Script killed by user with SCRIPT KILL... script: 694a, on @user_script:1."), true, driver.ErrUnavailable},
		{ReplyError("ERR Error running script (call to f_1): @user_script:1: Script killed by user with SCRIPT KILL..."), true, driver.ErrUnavailable},
		{ReplyError("ERR Error running script"), true, driver.ErrRefused},
		{ReplyError("ERR max number of clients reached"), true, driver.ErrUnavailable},
		{ReplyError("WRONGPASS invalid username-password pair"), false, driver.ErrRefused},
		{ReplyError("NOAUTH Authentication required."), false, driver.ErrRefused},
		{ReplyError("NOPERM this user has no permissions to run the 'evalsha' command"), true, driver.ErrRefused},
		{ReplyError("ERR unknown command 'EVALSHA'"), true, driver.ErrRefused},
		{ReplyError("WRONGTYPE Operation against a key"), true, driver.ErrRefused},
	} {
		got := Classify(fmt.Errorf("wrapped: %w", v.err), v.sent)
		peer.SaysOneLine(t, got, v.class, "")
		require.ErrorIs(t, got, v.err, "the cause stays in the chain")
		require.Equal(t, got, Classify(got, !v.sent), "classified once")
	}
	require.NoError(t, Classify(nil, true))
}

func TestExplain(t *testing.T) {
	for _, v := range []struct {
		err, class error
		what       string
	}{
		{io.EOF, driver.ErrUnavailable, "h:1 closed the connection: is it a Redis server below its maxclients, and do both sides agree on TLS?"},
		{context.DeadlineExceeded, driver.ErrUnavailable, "h:1 does not answer: is it"},
		{context.Canceled, driver.ErrUnavailable, "context canceled"},
		{fmt.Errorf("redis: invalid reply: %q", strings.Repeat("\x00", 999)), driver.ErrUnavailable, `is h:1 a Redis server? (redis: invalid reply: "\x00`},
		{goredis.ErrPoolTimeout, driver.ErrUnavailable, "pool timeout"},
		{ReplyError("NOAUTH Authentication required."), driver.ErrRefused, "a password is needed"},
		{ReplyError("ERR ACL failure in script: User noset has no permissions to run the 'set' command"), driver.ErrRefused, "ACL is too narrow"},
		{ReplyError("ERR Script attempted to access a non local key"), driver.ErrUnavailable, "non local key"},
	} {
		err := Explain("h:1", Classify(v.err, true))
		require.ErrorIs(t, err, v.class)
		require.NotErrorIs(t, err, driver.ErrUnknown)
		require.ErrorContains(t, err, v.what)
		require.Less(t, len(err.Error()), 250)
	}
}

// Redis 6.0 does not know SET with GET. The servers of a KeyDB that replicate to each other do not exclude. Check tries every command of the scripts.
func TestServersAreRefused(t *testing.T) {
	peer.SaysOneLine(t, Tried(Reply{Value: []any{"SET", "ERR syntax error"}}, nil), driver.ErrRefused, "too old: 6.2 or newer")
	peer.SaysOneLine(t, role(map[string]string{"role": "active-replica"}, Remedies{}), driver.ErrRefused, "KeyDB")
	require.NoError(t, role(map[string]string{"role": "master"}, Remedies{}))
	for _, f := range peer.Must(lua.ReadDir("lua"))(t) {
		for _, used := range regexp.MustCompile(`call\('(\w+)'`).FindAllStringSubmatch(text(strings.TrimSuffix(f.Name(), ".lua")), -1) {
			require.Contains(t, text("check"), "\ntry('"+used[1]+"'", "%s uses a command that Check does not try", f.Name())
		}
	}
}
