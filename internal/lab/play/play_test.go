package play

import (
	"net/rpc"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	_ "github.com/lockport/lockport/backend/file" // workers open it
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestMain(m *testing.M) {
	WorkerMain()
	os.Exit(m.Run())
}

// A crash of a worker is reported, although another worker replaces it.
func TestAWorkerThatCrashesIsTold(t *testing.T) {
	cell := Cell{Fault: "f", Script: Storm(func(s *Phase) { s.Holder().process.Kill() })}
	played := peer.Must(Play(t.Context(), environment.Need(t, "file"), &cell, 1))(t)
	require.Len(t, played.Stuck, 1)
	require.Contains(t, played.Stuck[0], "ended unasked (signal: killed)")
}

// The fence refuses an older holder's late update. Without a fence, an update is lost. A newer holder's token counts from its first read.
func TestRegisterCountsLostUpdates(t *testing.T) {
	r := peer.Must(newRegister())(t)
	defer r.Close()
	client := peer.Must(rpc.Dial("tcp", r.Addr().String()))(t)
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
	other := Update{Name: "other", Token: token, Write: true, Value: 1}
	require.NoError(t, peer.ErrOf(other.ask(client)), "tokens are compared per name")
}
