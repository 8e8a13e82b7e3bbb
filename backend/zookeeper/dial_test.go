package zookeeper

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/servers"
)

// A server that is busy can end the short session by which its tick is learnt before it has answered: it is asked once more.
func TestProbeThatEndsBeforeItsAnswer(t *testing.T) {
	t.Parallel()
	s := servers.SharedZooKeeper(t)
	for _, ended := range []int32{1, 2} {
		var dialled atomic.Int32
		b := newBackend(t, Options{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			if dialled.Add(1) > ended {
				return new(net.Dialer).DialContext(ctx, network, address)
			}
			ours, theirs := net.Pipe()
			go func() {
				_, _ = theirs.Read(make([]byte, 1<<10))
				_ = theirs.Close()
			}()
			return ours, nil
		}}, s.Addr())
		_, err := b.live(within(t, soon))
		if ended == 1 {
			require.NoError(t, err)
		} else { // it does not answer at all
			require.ErrorIs(t, err, errNoAnswer)
			require.ErrorIs(t, err, io.EOF)
		}
	}
}
