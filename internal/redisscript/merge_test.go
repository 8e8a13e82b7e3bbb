package redisscript

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

// merging is a wire whose next calls go past go-redis.
func merging(t *testing.T, o *goredis.Options) *wire {
	client := goredis.NewClient(o)
	w := newWire(client)
	t.Cleanup(func() { w.close(); _ = client.Close() })
	_, _, err := w.run(t.Context(), []any{ping})
	require.NoError(t, err)
	require.NotNil(t, w.ready)
	return w
}

// lockCall is a call of script, Acquire or Release, for owner on name.
func lockCall(script *Script, name, owner string) *call {
	value, key := Value(fmt.Sprintf("%032s:test/1/x/y", owner)), Layout{Prefix: DefaultPrefix}.Key(name)
	queue, token := Side(key, "queue"), Side(key, "token")
	if script == Release {
		return &call{script: script, args: append(script.Args(4), "2", key, queue, value)}
	}
	return &call{script: script, args: append(script.Args(7), "3", key, queue, token, value, 10_000, "1")}
}

func sharedOptions(t *testing.T) *goredis.Options {
	o, err := goredis.ParseURL(servers.SharedRedis(t).URL())
	require.NoError(t, err)
	return o
}

// asUser is a server, and how a user with so few rights reaches it.
func asUser(t *testing.T, rights string) (*servers.Redis, *goredis.Options) {
	s := servers.NeedRedis(t, servers.RedisOptions{Users: []string{"some on >secret " + rights}})
	o, err := goredis.ParseURL(s.UserURL("some", "secret"))
	require.NoError(t, err)
	return s, o
}

// requireTogether says that the server is sent n scripts for calls.
func requireTogether(t *testing.T, n int, calls []*call) {
	t.Helper()
	text := (&merger{}).append(nil, slices.Clone(calls), true)
	require.Equal(t, n, bytes.Count(text, []byte("\r\nEVAL")), "scripts for many locks")
}

func TestManyCallsOfOneScriptGoTogether(t *testing.T) {
	s := servers.SharedRedis(t)
	w := merging(t, sharedOptions(t))
	name := func(i int) string { return fmt.Sprint(t.Name(), i) }
	for range 3 {
		var calls []*call
		for i := range 100 {
			calls = append(calls, lockCall(Acquire, name(i), "a"))
		}
		requireTogether(t, 2, calls)
		w.runAll(t.Context(), calls)
		tokens := make(map[string]int64)
		for _, c := range calls {
			require.NoError(t, c.err)
			require.Greater(t, c.value, int64(1_000_000_000_000_000))
			tokens[c.args[3].(string)] = c.value.(int64)
		}
		// Others find them held, and what is released is free for a claim that goes with the release.
		calls = nil
		for i := range 50 {
			calls = append(calls, lockCall(Acquire, name(i), "b"), lockCall(Release, name(i+50), "a"), lockCall(Acquire, name(i+50), "c"),
				lockCall(Release, name(i), "d"), &call{args: []any{ping}})
		}
		requireTogether(t, 4, calls)
		w.runAll(t.Context(), calls)
		for _, c := range calls {
			require.NoError(t, c.err)
			owner := fmt.Sprint(c.args...)
			switch {
			case c.script == nil:
				require.Equal(t, "PONG", c.value)
			case c.script == Acquire && strings.Contains(owner, "00b:"):
				require.EqualValues(t, 0, c.value.([]any)[0])
			case c.script == Acquire:
				require.Greater(t, c.value, tokens[c.args[3].(string)])
			case strings.Contains(owner, "00a:"):
				require.Equal(t, int64(1), c.value)
			default:
				require.Contains(t, c.value, "00a:")
			}
		}
		calls = nil
		for i := range 50 {
			calls = append(calls, lockCall(Release, name(i), "a"), lockCall(Release, name(i+50), "c"))
			_, err := s.Do(t.Context(), "DEL", lockCall(Release, name(i), "b").args[4]) // who waits
			require.NoError(t, err)
		}
		w.runAll(t.Context(), calls)
		for _, c := range calls {
			require.NoError(t, c.err)
			require.Equal(t, int64(1), c.value)
		}
	}
}

// What is wrong with one lock is nothing to the others.
func TestAnErrorIsThatOfOneCall(t *testing.T) {
	s := servers.SharedRedis(t)
	w := merging(t, sharedOptions(t))
	good, bad, last := lockCall(Acquire, t.Name()+"1", "a"), lockCall(Acquire, t.Name()+"2", "a"), lockCall(Acquire, t.Name()+"3", "a")
	_, err := s.Do(t.Context(), "RPUSH", bad.args[5], "no token")
	require.NoError(t, err)
	w.runAll(t.Context(), []*call{good, bad, last})
	require.NoError(t, good.err)
	require.NoError(t, last.err)
	require.ErrorIs(t, Classify(bad.err, bad.sent), driver.ErrRefused)
	require.ErrorContains(t, bad.err, "WRONGTYPE")
	n, err := s.Do(t.Context(), "EXISTS", bad.args[3])
	require.NoError(t, err)
	require.Zero(t, n, "an error means that nothing was granted")
	require.NotNil(t, w.ready, "the connection is as good as before")
	for _, c := range []*call{good, bad, last} {
		_, err = s.Do(t.Context(), "DEL", c.args[3], c.args[5])
		require.NoError(t, err)
	}
}

func TestCallsThatAreRefusedTogetherGoAlone(t *testing.T) {
	s, o := asUser(t, "~lockport:mine* ~lockport.side:{lockport:mine* &* +@all")
	w := merging(t, o)
	_, err := s.Do(t.Context(), "SCRIPT", "LOAD", Acquire.source)
	require.NoError(t, err)
	for range 2 {
		mine, yours := lockCall(Acquire, "mine", "a"), lockCall(Acquire, "yours", "a")
		w.runAll(t.Context(), []*call{mine, yours})
		require.NoError(t, mine.err)
		require.ErrorIs(t, Classify(yours.err, yours.sent), driver.ErrRefused)
		require.ErrorContains(t, yours.err, "NOPERM")
		require.False(t, w.merger.from.IsZero(), "others are not refused because of it for a while")
	}
}

func TestScriptsForManyAreLoadedAgain(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	o, err := goredis.ParseURL(s.URL())
	require.NoError(t, err)
	w := merging(t, o)
	for range 3 {
		calls := []*call{lockCall(Acquire, "1", "a"), lockCall(Acquire, "2", "a")}
		w.runAll(t.Context(), calls)
		for _, c := range calls {
			if !isNoScript(c.err) { // else the pipe makes it again, with the source
				require.NoError(t, c.err)
			}
		}
		require.True(t, w.merger.from.IsZero())
		_, err := s.Do(t.Context(), "SCRIPT", "FLUSH")
		require.NoError(t, err)
	}
	calls := []*call{lockCall(Acquire, "1", "a"), lockCall(Acquire, "2", "a")}
	w.runAll(t.Context(), calls) // refused together: see above
	w.runAll(t.Context(), calls)
	for _, c := range calls {
		require.NoError(t, c.err)
	}
}

// Whatever is lost, a call that was refused together with others, and could not be made again, had no effect.
func TestCallsRefusedTogetherHadNoEffect(t *testing.T) {
	calls := []*call{lockCall(Acquire, "1", "a"), lockCall(Acquire, "2", "a")}
	var m merger
	m.share(calls, nil, ReplyError("NOPERM no"))
	require.Len(t, m.refused(calls), 2)
	for what, replies := range map[string][]any{"too few replies": {int64(1)}, "too many": {int64(1), int64(1), int64(1)}} {
		m.share(calls, replies, nil)
		for _, c := range calls {
			require.ErrorIs(t, Classify(c.err, true), driver.ErrUnknown, what)
		}
		require.Empty(t, m.refused(calls))
	}
	m.share(calls, nil, io.ErrUnexpectedEOF)
	require.Empty(t, m.refused(calls), "they may have been carried out")
}

// written is what connections have been sent.
type written struct {
	mu   sync.Mutex
	text []byte
}

func (w *written) dialer(o *goredis.Options) func(context.Context, string, string) (net.Conn, error) {
	dial := goredis.NewDialer(o)
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		return writtenConn{c, w}, err
	}
}

type writtenConn struct {
	net.Conn
	to *written
}

func (c writtenConn) Write(b []byte) (int, error) {
	c.to.mu.Lock()
	c.to.text = append(c.to.text, b...)
	c.to.mu.Unlock()
	return c.Conn.Write(b)
}

// TestWaitSpeaksForAll: replicas acknowledge what was written before WAIT, so calls that go again, each for itself, need another one.
func TestWaitSpeaksForAll(t *testing.T) {
	s, o := asUser(t, "~lockport:mine* ~lockport.side:{lockport:mine* &* +@all")
	var sent written
	o.Dialer = sent.dialer(o)
	w := merging(t, o)
	_, err := s.Do(t.Context(), "SCRIPT", "LOAD", Acquire.source)
	require.NoError(t, err)
	mine, yours := lockCall(Acquire, "mine", "a"), lockCall(Acquire, "yours", "a")
	wait := &call{waits: true, args: []any{"wait", 0, int64(10)}}
	w.runAll(t.Context(), []*call{mine, yours, wait})
	require.NoError(t, mine.err)
	require.Error(t, yours.err)
	require.NoError(t, wait.err)
	require.Greater(t, bytes.LastIndex(sent.text, []byte("wait")), bytes.LastIndex(sent.text, []byte(Acquire.sha.(string))))
}

// TestApart: calls on a server of a cluster never go as one script.
func TestApart(t *testing.T) {
	calls := []*call{lockCall(Acquire, "a", "a"), lockCall(Acquire, "b", "b")}
	m := merger{apart: true}
	require.Equal(t, 2, bytes.Count(m.append(nil, calls, true), []byte(Acquire.sha.(string))))
}

// Calls that were refused together had no effect, also where the connection was lost before they could go again.
func TestCallsRefusedTogetherBeforeALoss(t *testing.T) {
	w := merging(t, sharedOptions(t))
	w.ready.used = time.Now().Add(time.Hour) // however slow this machine is, the call goes past go-redis
	w.ready.in.Reset(strings.NewReader("-NOPERM no\r\n"))
	calls := []*call{lockCall(Release, t.Name()+"1", "a"), lockCall(Release, t.Name()+"2", "a"), {args: []any{ping}}}
	w.runAll(t.Context(), calls)
	require.Nil(t, w.ready)
	for _, c := range calls[:2] {
		require.ErrorIs(t, Classify(c.err, c.sent), driver.ErrUnavailable)
	}
	require.ErrorIs(t, Classify(calls[2].err, calls[2].sent), driver.ErrUnknown)
}
