package play

import (
	"net/rpc"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/fence"
)

// The fence refuses an older holder's late update. Without a fence, an update is lost. A newer holder's token counts from its first read.
func TestRegisterCountsLostUpdates(t *testing.T) {
	r, err := newRegister()
	require.NoError(t, err)
	defer r.close()
	client, err := rpc.Dial("tcp", r.addr())
	require.NoError(t, err)
	defer client.Close()
	const token, next = 1024, 2048
	for _, c := range []struct {
		what       string
		update     Update
		want, lost int64
		stale      bool
	}{
		{"the older one reads", Update{Token: token}, 0, 0, false},
		{"and writes", Update{Token: token, Write: true, Value: 1}, 1, 0, false},
		{"the newer one reads", Update{Token: next}, 1, 0, false},
		{"the older one writes late", Update{Token: token, Write: true, Value: 2}, 2, 0, true},
		{"the newer one writes what it knows of", Update{Token: next, Write: true, Value: 2}, 2, 0, false},
		{"without a token there is no fence", Update{Write: true, Value: 2}, 2, 1, false},
	} {
		c.update.Name = "n"
		got, err := askRegister(client, c.update)
		if c.stale {
			require.ErrorIs(t, err, fence.ErrStale, c.what)
			require.Equal(t, fence.StaleError{Name: "n", Token: token, Seen: next}, *got.Stale)
		} else {
			require.NoError(t, err, c.what)
		}
		require.Equal(t, c.want, got.Value, c.what)
		require.Equal(t, c.lost, r.lost("n"), c.what)
	}
	_, err = askRegister(client, Update{Name: "other", Token: token, Write: true, Value: 1})
	require.NoError(t, err, "tokens are compared per name")
}
