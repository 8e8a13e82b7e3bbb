package measure

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/lockport/lockport/backend/file"
	"github.com/lockport/lockport/internal/lab/worker"

	"github.com/lockport/lockport/internal/lab/history"
)

func TestMain(m *testing.M) {
	WorkerMain(func(ctx context.Context, c Config) (Locker, error) {
		if c.Library == "broken" {
			return broken, nil
		}
		return Open(ctx, c)
	})
	os.Exit(m.Run())
}

// broken lets everybody in.
var broken = Locker{Close: func() error { return nil }, Acquire: func(context.Context, string, bool) (Release, error) {
	time.Sleep(time.Millisecond)
	return func(context.Context) error { return nil }, nil
}}

func config(t *testing.T) Config {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	return Config{URL: "file://" + t.TempDir(), TTL: time.Second}
}

func started(t *testing.T, c Config, n int) *Workers {
	t.Helper()
	w, err := Start(t.Context(), c, n)
	require.NoError(t, err)
	t.Cleanup(w.Close)
	return w
}

func TestCycles(t *testing.T) {
	w := started(t, config(t), 1)
	c, err := w.Cycle(t.Context(), CycleOptions{Name: "own", Goroutines: 3, Most: 10, For: time.Minute})
	require.NoError(t, err)
	require.Len(t, c.Both, 30)
	for i := range c.Both {
		require.Positive(t, c.Acquire[i])
		require.Equal(t, c.Both[i], c.Acquire[i]+c.Release[i])
	}
	require.Positive(t, c.Allocs)
	c, err = w.Cycle(t.Context(), CycleOptions{Name: "own", Goroutines: 1, Most: 10, Try: true})
	require.NoError(t, err)
	require.Len(t, c.Both, fewest, "however long it takes")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = w.Cycle(ctx, CycleOptions{Name: "own", Goroutines: 1, Most: 1 << 20, For: time.Hour})
	require.ErrorIs(t, err, context.Canceled)
}

func TestContend(t *testing.T) {
	c, err := started(t, config(t), 2).Contend(t.Context(), "one", 5, 200*time.Millisecond, 5*time.Second)
	require.NoError(t, err)
	require.Zero(t, c.Overlaps)
	require.Len(t, c.Clients, 5)
	require.Len(t, c.Processes, 2)
	require.Len(t, c.Waits, c.Holds)
	require.Equal(t, c.Holds, c.Processes[0]+c.Processes[1])

	bad := config(t)
	bad.Library = "broken"
	c, err = started(t, bad, 2).Contend(t.Context(), "one", 64, 500*time.Millisecond, 5*time.Second)
	require.NoError(t, err)
	require.Positive(t, c.Overlaps, "a lock that lets everybody in must be seen")
}

func TestHandOff(t *testing.T) {
	bad := config(t)
	bad.Library = "broken"
	for _, processes := range []int{1, 2} {
		times, err := started(t, config(t), processes).HandOff(t.Context(), "one", 3, 5*time.Millisecond)
		require.NoError(t, err)
		require.Len(t, times, 3)
		_, err = started(t, bad, processes).HandOff(t.Context(), "one", 3, 5*time.Millisecond)
		require.ErrorContains(t, err, "before it was released")
	}
}

func TestTakeoverAndGap(t *testing.T) {
	c := config(t)
	times, err := Takeover(t.Context(), c, TakeoverOptions{Name: "one", Locks: 3, Waiters: 2, Turns: 1})
	require.NoError(t, err)
	require.Len(t, times, 3)
	require.Positive(t, times[0])
	gap, err := Gap(t.Context(), c, "gap", func(ctx context.Context) error { return sleep(ctx, 50*time.Millisecond) })
	require.NoError(t, err)
	require.Positive(t, gap)
	_, err = MeasureIdle(t.Context(), c, IdleOptions{Name: "one", Waiters: 1})
	require.ErrorIs(t, err, ErrNotCounted, "there is no server")
}

func TestWorkers(t *testing.T) {
	c := config(t)
	_, err := Start(t.Context(), Config{URL: "lockd:", TTL: time.Second}, 3)
	require.ErrorContains(t, err, `unknown scheme "lockd"`)
	w := started(t, c, 2)
	ask := func(i int, o order) error {
		o.Name, o.For = "a", grantLimit
		_, err := w.all[i].Ask(t.Context(), o)
		return err
	}
	require.EqualError(t, ask(0, order{Do: "dance"}), `unknown order "dance"`)
	require.EqualError(t, ask(0, order{Do: "release"}), `"a" is not held`)

	// A worker that is asked to end releases what it holds, and its waiters give up.
	require.NoError(t, ask(0, order{Do: "acquire"}))
	require.NoError(t, ask(1, order{Do: "wait", Goroutines: 3}))
	w.all[1].Close()
	require.True(t, w.all[1].State().Success(), "it had to be killed")
	require.NoError(t, w.all[0].Signal(os.Interrupt), "Ctrl-C reaches every process of a terminal")
	require.NoError(t, ask(0, order{Do: "release"}), "a worker goes on until its parent closes it")

	await := w.all[0].Send(order{Do: "contend", Name: "b", Goroutines: 1, For: time.Hour})
	w.all[0].Kill()
	_, err = await(t.Context())
	require.ErrorIs(t, err, worker.ErrEnded)
}

// Two processes tell the time alike: what one does before the other has the earlier instant.
func TestClockIsShared(t *testing.T) {
	w := started(t, config(t), 1)
	for i := range 20 {
		before := history.Now()
		a, err := w.all[0].Ask(t.Context(), order{Do: "acquire", Name: fmt.Sprint(i), For: grantLimit})
		require.NoError(t, err)
		require.GreaterOrEqual(t, a.At, before)
		require.LessOrEqual(t, a.At, history.Now())
	}
}

func TestJudge(t *testing.T) {
	// The first asked at 1, and had the lock from 10 to 20.
	a := hold{Client: 0, Asked: 1, Got: 10, Ended: 20}
	b := hold{Client: 1, Process: 1, Asked: 2, Got: 20, Ended: 30}
	again := hold{Client: 1, Process: 1, Asked: 31, Got: 32, Ended: 33}
	late := hold{Client: 2, Asked: 3, Got: 150, Ended: 151}
	never := hold{Client: 3, Asked: 4}
	c := judge([]hold{never, late, again, b, a}, 4, 2, 100)
	require.Equal(t, Contention{
		Holds: 3, Changes: 2, Starved: 2, Longest: 147, Waits: []float64{.009, .018, .001}, Clients: []int{1, 2, 0, 0}, Processes: []int{1, 2},
	}, c)

	b.Got = 19
	require.Equal(t, 1, judge([]hold{a, b}, 2, 2, 100).Overlaps)
	inside := hold{Client: 2, Got: 25, Ended: 26}
	require.Equal(t, 2, judge([]hold{a, b, inside}, 3, 2, 100).Overlaps, "a long hold with another one in it")
}

func TestLongestGap(t *testing.T) {
	successes := []history.Instant{0, 100, 110, 120, 150, 160, 165}
	require.Equal(t, 30*time.Nanosecond, longestGap(successes, 115), "what came before the strike does not count")
	require.Equal(t, 10*time.Nanosecond, longestGap(successes, 150))
	require.Equal(t, 100*time.Nanosecond, longestGap(successes, 50), "it began before the strike and ended after it")
	require.Zero(t, longestGap(nil, 0))
}
