package play

import (
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
)

// testRegister starts a register. dial makes clients of it, whose Timeout bounds what a mistake could make hang.
func testRegister(t *testing.T) (r *register, dial func() *registerClient) {
	t.Helper()
	r, err := newRegister()
	require.NoError(t, err)
	t.Cleanup(r.close)
	return r, func() *registerClient { return &registerClient{r.url, http.Client{Timeout: 30 * time.Second}} }
}

// An older holder's late update is refused by the fence, and lost, or loses another, where there is none.
func TestRegisterCountsLostUpdates(t *testing.T) {
	r, dial := testRegister(t)
	older, newer := dial(), dial()
	lost := func(name string) [2]int64 {
		fenced, bare := r.lost(name)
		return [2]int64{fenced, bare}
	}

	fenced, bare, err := older.read("n", 1024)
	require.NoError(t, err)
	require.Zero(t, fenced+bare)
	require.NoError(t, older.write("n", 1024, fenced+1, bare+1))
	fenced, bare, err = older.read("n", 1024)
	require.NoError(t, err)
	require.Equal(t, [2]int64{1, 1}, [2]int64{fenced, bare})

	f, b, err := newer.read("n", 2048)
	require.NoError(t, err)
	require.NoError(t, newer.write("n", 2048, f+1, b+1))
	require.Zero(t, lost("n"))
	require.ErrorIs(t, older.write("n", 1024, fenced+1, bare+1), fence.ErrStale)
	require.Equal(t, [2]int64{0, 1}, lost("n"))

	f, b, err = older.read("n", 1024)
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, fence.StaleError{Name: "n", Token: 1024, Seen: 2048}, *stale)
	require.Equal(t, [2]int64{0, 2}, [2]int64{f, b}, "the bare one is read whatever the fence says")
	require.Zero(t, lost("other"))
}

// A new holder's token is registered when it reads, so that an older one's write cannot come between its read and its write.
func TestRegisterRegistersOnRead(t *testing.T) {
	_, dial := testRegister(t)
	older, newer := dial(), dial()
	_, _, err := newer.read("n", 2048)
	require.NoError(t, err)
	require.ErrorIs(t, older.write("n", 1024, 1, 1), fence.ErrStale)
	require.NoError(t, older.write("other", 1024, 1, 1), "tokens of another name have nothing to do with it")
}

func TestRegisterWithoutTokensIsBare(t *testing.T) {
	r, dial := testRegister(t)
	c := dial()
	for range 2 {
		require.NoError(t, c.write("n", 0, 7, 1))
	}
	fenced, bare, err := c.read("n", 0)
	require.NoError(t, err)
	require.Equal(t, [2]int64{0, 1}, [2]int64{fenced, bare})
	fenced, bare = r.lost("n")
	require.Equal(t, [2]int64{0, 1}, [2]int64{fenced, bare})
}

// Many clients that do not exclude each other may lose updates of the bare register; with tokens that rise they lose none of the fenced one.
func TestRegisterServesManyClients(t *testing.T) {
	r, dial := testRegister(t)
	var mu sync.Mutex
	var last lockport.Token
	var all sync.WaitGroup
	for range 8 {
		c := dial()
		for range 2 {
			all.Go(func() {
				for range 100 {
					mu.Lock()
					last++
					mine := last
					mu.Unlock()
					fenced, bare, err := c.read("n", mine)
					if err == nil {
						err = c.write("n", mine, fenced+1, bare+1)
					}
					if err != nil && !errors.Is(err, fence.ErrStale) {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	lost, bare := r.lost("n")
	require.Zero(t, lost)
	require.GreaterOrEqual(t, bare, int64(0))
	fenced, _, err := dial().read("n", last+1)
	require.NoError(t, err)
	require.Positive(t, fenced)
}

// A client that is stopped in the middle of a request, and one that does not read its answer, keep nobody waiting.
func TestRegisterDoesNotWaitForAClient(t *testing.T) {
	r, dial := testRegister(t)
	for _, text := range []string{
		"POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 100\r\n\r\n{",
		"POST / HTTP/1.1\r\nHost: r\r\nContent-Length: 25\r\n\r\n" + `{"Name":"n","Token":1024}`,
	} {
		stopped, err := net.Dial("tcp", strings.TrimPrefix(r.url, "http://"))
		require.NoError(t, err)
		defer func() { _ = stopped.Close() }()
		_, err = stopped.Write([]byte(text))
		require.NoError(t, err)
	}
	c := dial()
	require.NoError(t, c.write("n", 2048, 2, 1))
	r.close() // nor does close wait
	_, _, err := c.read("n", 2048)
	require.Error(t, err)
	require.NotErrorIs(t, err, fence.ErrStale)
	fenced, _ := r.lost("n")
	require.Equal(t, int64(-1), fenced, "what it has stays")
}

// A request that has no answer in time, or whose connection ends, returns.
func TestRegisterClientGivesUp(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	c := &registerClient{"http://" + silent.Addr().String(), http.Client{Timeout: 20 * time.Millisecond}}
	_, _, err = c.read("n", 1)
	require.True(t, errors.As(err, new(net.Error)), err)
	require.Equal(t, "timed out", string(classOf(err)))
	require.NoError(t, silent.Close())
	require.Error(t, c.write("n", 1, 1, 1))
}
