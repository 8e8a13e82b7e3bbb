package redlock

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/redisscript"
)

// commands is a client hook that records what it sends.
type commands struct {
	mu  sync.Mutex
	all []string
}

func (h *commands) note(cmds ...goredis.Cmder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, cmd := range cmds {
		h.all = append(h.all, cmd.String())
	}
}

func (h *commands) DialHook(next goredis.DialHook) goredis.DialHook { return next }

func (h *commands) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		h.note(cmd)
		return next(ctx, cmd)
	}
}

func (h *commands) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		h.note(cmds...)
		return next(ctx, cmds)
	}
}

// saw reports whether the hook saw a call of script.
func (h *commands) saw(script *redisscript.Script) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return script.Names([]byte(strings.Join(h.all, "\n")))
}

// The hooks of each node's client, wrapped or not, see every command of a cycle, with one connection and go-redis' own retries.
func TestTheCallersClientsCarryEveryRequest(t *testing.T) {
	t.Parallel()
	x := plainNodes(t, 3)
	var hooks []*commands
	var clients []goredis.UniversalClient
	for _, s := range x.servers {
		c := goredis.NewClient(&goredis.Options{Addr: s.Addr(), PoolSize: 1})
		t.Cleanup(func() { _ = c.Close() })
		h := &commands{}
		c.AddHook(h)
		hooks, clients = append(hooks, h), append(clients, struct{ goredis.UniversalClient }{c})
	}
	b, err := NewBackend(clients, Options{})
	require.NoError(t, err)
	a := clientOf(t, b, "a")
	lease := a.Takes(a.Request("x"))
	_, err = a.Renews(lease)
	require.NoError(t, err)
	a.Abandons(a.Request("y"))
	_, err = a.Inspect(t.Context(), "x")
	require.NoError(t, err)
	do(t, x.servers[0], "DEL", key("x"))
	_, err = a.Renews(lease)
	require.NoError(t, err)
	x.full(t, "x")
	a.Frees(lease)
	x.empty(t, "x")
	require.ErrorIs(t, a.Break(t.Context(), "x", "somebody"), driver.ErrLost)
	for i, h := range hooks {
		for name, script := range map[string]*redisscript.Script{
			"acquire": redisscript.QuorumAcquire, "renew": redisscript.QuorumRenew, "release": redisscript.QuorumRelease,
			"abandon": redisscript.Abandon, "inspect": redisscript.Inspect, "break": redisscript.Break,
		} {
			require.Eventually(t, func() bool { return h.saw(script) }, soon, time.Millisecond, "%s on node %d", name, i)
		}
	}
	require.True(t, hooks[0].saw(redisscript.QuorumRetake))

	// Closing the backend leaves the caller's clients open, and closes those opened from a URL.
	require.NoError(t, b.Close())
	require.NoError(t, clients[0].Ping(t.Context()).Err())
	_, err = a.Try(a.Request("x"))
	require.ErrorIs(t, err, driver.ErrUnavailable)
	own, err := peer.Open(t.Context(), x.url())
	require.NoError(t, err)
	require.NoError(t, own.Close())
	require.ErrorIs(t, own.(*Backend).nodes[0].client.Ping(t.Context()).Err(), goredis.ErrClosed)
}
