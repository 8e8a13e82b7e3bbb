package worlds

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/servers"
)

// What an arrangement does not have is said, not done to another.
func TestOperatorsSayWhatIsNotThere(t *testing.T) {
	w, err := File.Open(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, w.Close()) }()
	path, err := Folder(w)
	require.NoError(t, err)
	require.DirExists(t, path)
	require.Empty(t, Nodes(w))
	_, err = Leader(t.Context(), w)
	require.EqualError(t, err, "nobody leads in a folder of one machine")
	require.ErrorContains(t, Lag(w), "no link between servers can be cut in a folder")
	require.ErrorContains(t, Replace(t.Context(), &faults.Phase{World: w}), "nothing to take the place of the server in a folder")
	_, err = LoseDisk(t.Context(), w, 0)
	require.ErrorContains(t, err, "no disk to be lost in a folder")
	_, err = Folder(&faults.World{Arrangement: &Redis, Servers: &redisServer{}})
	require.ErrorContains(t, err, "are in no folder")
	_, err = Leader(t.Context(), &faults.World{Arrangement: &EtcdAlone, Servers: &etcds{nodes: []*servers.Etcd{nil}}})
	require.EqualError(t, err, "nobody leads in one etcd")
}
