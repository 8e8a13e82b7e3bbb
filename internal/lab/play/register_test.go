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
	defer r.Close()
	client, err := rpc.Dial("tcp", r.Addr().String())
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
		{"the older one writes late", Update{Token: token, Write: true, Value: 2}, 0, 0, true},
		{"the newer one writes what it knows of", Update{Token: next, Write: true, Value: 2}, 2, 0, false},
		{"without a token there is no fence", Update{Write: true, Value: 2}, 2, 1, false},
	} {
		c.update.Name = "n"
		got, err := c.update.ask(client)
		if c.stale {
			require.Equal(t, &fence.StaleError{Name: "n", Token: token, Seen: next}, err, c.what)
		} else {
			require.NoError(t, err, c.what)
			require.Equal(t, c.want, got, c.what)
		}
		require.Equal(t, c.lost, r.lost(), c.what)
	}
	_, err = Update{Name: "other", Token: token, Write: true, Value: 1}.ask(client)
	require.NoError(t, err, "tokens are compared per name")
}
