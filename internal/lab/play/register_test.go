package play

import (
	"errors"
	"net"
	"net/rpc"
	"sync"
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

// An older holder's late update is refused by the fence, and lost, or loses another, where there is none. A newer holder's token counts when it reads.
func TestRegisterCountsLostUpdates(t *testing.T) {
	r, dial := testRegister(t)
	older, newer := dial(), dial()
	const token, next = 1024, 2048
	for _, c := range []struct {
		what         string
		by           *rpc.Client
		update, want Update // the numbers
		lost         [2]int64
	}{
		{"the older one reads", older, Update{Token: token}, Update{}, [2]int64{}},
		{"and writes", older, Update{Token: token, Write: true, Fenced: 1, Bare: 1}, Update{Fenced: 1, Bare: 1}, [2]int64{}},
		{"the newer one reads", newer, Update{Token: next}, Update{Fenced: 1, Bare: 1}, [2]int64{}},
		{"the older one writes late", older, Update{Token: token, Write: true, Fenced: 2, Bare: 2}, Update{Fenced: 2, Bare: 2, Stale: &fence.StaleError{}}, [2]int64{}},
		{"the newer one writes what it knows of", newer, Update{Token: next, Write: true, Fenced: 2, Bare: 2}, Update{Fenced: 2, Bare: 2}, [2]int64{0, 1}},
		{"without a token there is no fence", older, Update{Write: true, Bare: 3, Fenced: 7}, Update{Bare: 3, Fenced: 7}, [2]int64{0, 1}},
	} {
		c.update.Name = "n"
		got, err := askRegister(c.by, c.update)
		if c.want.Stale != nil {
			require.ErrorIs(t, err, fence.ErrStale, c.what)
			require.Equal(t, fence.StaleError{Name: "n", Token: token, Seen: next}, *got.Stale)
		} else {
			require.NoError(t, err, c.what)
		}
		require.Equal(t, [2]int64{c.want.Fenced, c.want.Bare}, [2]int64{got.Fenced, got.Bare}, c.what)
		fenced, bare := r.lost("n")
		require.Equal(t, c.lost, [2]int64{fenced, bare}, c.what)
	}
	_, err := askRegister(older, Update{Name: "other", Token: token, Write: true, Fenced: 1})
	require.NoError(t, err, "tokens of another name have nothing to do with it")
}

// Many clients that do not exclude each other may lose updates of the bare register; with tokens that rise they lose none of the fenced one. A client that
// is stopped in the middle of a request keeps nobody waiting.
func TestRegisterServesManyClients(t *testing.T) {
	r, dial := testRegister(t)
	stopped, err := net.Dial("tcp", r.addr())
	require.NoError(t, err)
	defer func() { _ = stopped.Close() }()
	_, err = stopped.Write([]byte{100})
	require.NoError(t, err)
	var mu sync.Mutex
	var last lockport.Token
	var all sync.WaitGroup
	for range 8 {
		c := dial()
		all.Go(func() {
			for range 100 {
				mu.Lock()
				last++
				u := Update{Name: "n", Token: last}
				mu.Unlock()
				got, err := askRegister(c, u)
				if err == nil {
					u.Write, u.Fenced, u.Bare = true, got.Fenced+1, got.Bare+1
					_, err = askRegister(c, u)
				}
				if err != nil && !errors.Is(err, fence.ErrStale) {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	fenced, bare := r.lost("n")
	require.Zero(t, fenced)
	require.GreaterOrEqual(t, bare, int64(0))
	got, err := askRegister(dial(), Update{Name: "n", Token: last + 1})
	require.NoError(t, err)
	require.Positive(t, got.Fenced)
}
