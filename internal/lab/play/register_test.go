package play_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/rpc"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/lab/play"
)

func register(t *testing.T) *play.Register {
	t.Helper()
	r, err := play.NewRegister()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Close()) })
	return r
}

func dial(t *testing.T, r *play.Register) *play.RegisterClient {
	t.Helper()
	c, err := play.DialRegister(r.Addr())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// limited bounds what a mistake in the register could make hang.
func limited(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// An older holder's late update is refused by the fence, and lost, or loses another, where there is none.
func TestRegisterCountsLostUpdates(t *testing.T) {
	ctx, r := limited(t), register(t)
	older, newer := dial(t, r), dial(t, r)

	fenced, bare, err := older.Read(ctx, "n", 1024)
	require.NoError(t, err)
	require.Zero(t, fenced+bare)
	require.NoError(t, older.Write(ctx, "n", 1024, fenced+1, bare+1))
	fenced, bare, err = older.Read(ctx, "n", 1024)
	require.NoError(t, err)
	require.Equal(t, [2]int64{1, 1}, [2]int64{fenced, bare})

	f, b, err := newer.Read(ctx, "n", 2048)
	require.NoError(t, err)
	require.NoError(t, newer.Write(ctx, "n", 2048, f+1, b+1))
	require.ErrorIs(t, older.Write(ctx, "n", 1024, fenced+1, bare+1), fence.ErrStale)
	lostFenced, lostBare := r.Lost("n")
	require.Equal(t, [2]int64{0, 1}, [2]int64{lostFenced, lostBare})
	f, b = r.Accepted("n")
	require.Equal(t, [2]int64{2, 3}, [2]int64{f, b})

	f, b, err = older.Read(ctx, "n", 1024)
	require.ErrorIs(t, err, fence.ErrStale)
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, fence.StaleError{Name: "n", Token: 1024, Seen: 2048}, *stale)
	require.Equal(t, [2]int64{0, 2}, [2]int64{f, b}, "the bare one is read whatever the fence says")

	lostFenced, lostBare = r.Lost("other")
	require.Zero(t, lostFenced+lostBare)
}

// A new holder's token is registered when it reads, so that an older one's write cannot come between its read and its write.
func TestRegisterRegistersOnRead(t *testing.T) {
	ctx, r := limited(t), register(t)
	older, newer := dial(t, r), dial(t, r)
	_, _, err := newer.Read(ctx, "n", 2048)
	require.NoError(t, err)
	require.ErrorIs(t, older.Write(ctx, "n", 1024, 1, 1), fence.ErrStale)
	require.NoError(t, older.Write(ctx, "other", 1024, 1, 1), "tokens of another name have nothing to do with it")
}

func TestRegisterWithoutTokensIsBare(t *testing.T) {
	ctx, r := limited(t), register(t)
	c := dial(t, r)
	require.NoError(t, c.Write(ctx, "n", 0, 7, 1))
	fenced, bare, err := c.Read(ctx, "n", 0)
	require.NoError(t, err)
	require.Equal(t, [2]int64{0, 1}, [2]int64{fenced, bare})
	require.NoError(t, c.Write(ctx, "n", 0, 7, 1))
	lostFenced, lostBare := r.Lost("n")
	require.Equal(t, [2]int64{0, 1}, [2]int64{lostFenced, lostBare})
}

// Many clients that do not exclude each other lose updates of the bare register; with tokens that rise none of the fenced one.
func TestRegisterServesManyClients(t *testing.T) {
	ctx, r := limited(t), register(t)
	var token struct {
		sync.Mutex
		last lockport.Token
	}
	var all sync.WaitGroup
	for range 8 {
		c := dial(t, r)
		for range 2 {
			all.Go(func() {
				for range 100 {
					token.Lock()
					token.last++
					mine := token.last
					token.Unlock()
					fenced, bare, err := c.Read(ctx, "n", mine)
					if err == nil {
						err = c.Write(ctx, "n", mine, fenced+1, bare+1)
					}
					if err != nil && !errors.Is(err, fence.ErrStale) {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	lost, bare := r.Lost("n")
	require.Zero(t, lost)
	accepted, acceptedBare := r.Accepted("n")
	require.Positive(t, accepted)
	require.LessOrEqual(t, accepted, acceptedBare)
	require.GreaterOrEqual(t, bare, int64(0))
}

// deaf is a connection whose client never reads, as one that is stopped.
type deaf struct {
	net.Conn
	closed chan struct{}
}

func (d deaf) Read([]byte) (int, error) {
	<-d.closed
	return 0, io.EOF
}

// A client that does not read its answer, and one that goes away in the middle of a request, keep nobody waiting.
func TestRegisterDoesNotWaitForAClient(t *testing.T) {
	ctx, r := limited(t), register(t)
	stopped, its := net.Pipe() // which has no buffer: who writes waits for a reader
	closed := make(chan struct{})
	defer close(closed)
	play.AttachRegister(r, its)
	rpc.NewClient(deaf{stopped, closed}).Go("Register.Do", play.RegisterRequest{Name: "n", Token: 1024}, new(play.RegisterReply), nil)

	killed, err := net.Dial("tcp", r.Addr())
	require.NoError(t, err)
	_, err = killed.Write([]byte{100, 1, 2})
	require.NoError(t, err)
	require.NoError(t, killed.Close())

	c := dial(t, r)
	require.NoError(t, c.Write(ctx, "n", 2048, 1, 1))
	require.NoError(t, r.Close(), "nor does Close wait")
	require.NoError(t, r.Close())
	_, _, err = c.Read(ctx, "n", 2048)
	require.Error(t, err)
	require.NotErrorIs(t, err, fence.ErrStale)
	fenced, _ := r.Accepted("n")
	require.Equal(t, int64(1), fenced, "what it has stays")
}

// A request whose context ends, or whose connection does, returns.
func TestRegisterClientGivesUp(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, silent.Close()) }()
	c, err := play.DialRegister(silent.Addr().String())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	mute, err := silent.Accept()
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, _, err = c.Read(ctx, "n", 1)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, mute.Close())
	ctx = limited(t)
	require.Error(t, c.Write(ctx, "n", 1, 1, 1))
	require.NoError(t, ctx.Err())
}
