package play

import (
	"errors"
	"net"
	"net/rpc"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
)

// testRegister starts a register. dial makes clients of it.
func testRegister(t *testing.T) (r *register, dial func() *rpc.Client) {
	t.Helper()
	r, err := newRegister()
	require.NoError(t, err)
	t.Cleanup(r.close)
	return r, func() *rpc.Client {
		c, err := rpc.Dial("tcp", r.addr())
		require.NoError(t, err)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
}

// The fence refuses an older holder's late update. Without one, it is lost, or another is. A newer holder's token counts when it reads.
func TestRegisterCountsLostUpdates(t *testing.T) {
	r, dial := testRegister(t)
	older, newer := dial(), dial()
	const token, next = 1024, 2048
	for _, c := range []struct {
		what       string
		by         *rpc.Client
		update     Update
		want, lost int64
		stale      bool
	}{
		{"the older one reads", older, Update{Token: token}, 0, 0, false},
		{"and writes", older, Update{Token: token, Write: true, Value: 1}, 1, 0, false},
		{"the newer one reads", newer, Update{Token: next}, 1, 0, false},
		{"the older one writes late", older, Update{Token: token, Write: true, Value: 2}, 2, 0, true},
		{"the newer one writes what it knows of", newer, Update{Token: next, Write: true, Value: 2}, 2, 0, false},
		{"without a token there is no fence", older, Update{Write: true, Value: 2}, 2, 1, false},
	} {
		c.update.Name = "n"
		got, err := askRegister(c.by, c.update)
		if c.stale {
			require.ErrorIs(t, err, fence.ErrStale, c.what)
			require.Equal(t, fence.StaleError{Name: "n", Token: token, Seen: next}, *got.Stale)
		} else {
			require.NoError(t, err, c.what)
		}
		require.Equal(t, c.want, got.Value, c.what)
		require.Equal(t, c.lost, r.lost("n"), c.what)
	}
	_, err := askRegister(older, Update{Name: "other", Token: token, Write: true, Value: 1})
	require.NoError(t, err, "tokens of another name have nothing to do with it")
}

// Clients whose tokens rise lose no update, though they do not exclude each other. One that is stopped in the middle of a request keeps nobody waiting.
func TestRegisterServesManyClients(t *testing.T) {
	r, dial := testRegister(t)
	stopped, err := net.Dial("tcp", r.addr())
	require.NoError(t, err)
	defer func() { _ = stopped.Close() }()
	_, err = stopped.Write([]byte{100})
	require.NoError(t, err)
	var last atomic.Uint64
	var all sync.WaitGroup
	for range 8 {
		c := dial()
		all.Go(func() {
			for range 100 {
				u := Update{Name: "n", Token: lockport.Token(last.Add(1))}
				got, err := askRegister(c, u)
				if err == nil {
					u.Write, u.Value = true, got.Value+1
					_, err = askRegister(c, u)
				}
				if err != nil && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	require.Zero(t, r.lost("n"))
	got, err := askRegister(dial(), Update{Name: "n", Token: lockport.Token(last.Add(1))})
	require.NoError(t, err)
	require.Positive(t, got.Value)
}
