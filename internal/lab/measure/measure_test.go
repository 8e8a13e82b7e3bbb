package measure

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	_ "github.com/lockport/lockport/backend/file"
	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/internal/lab/peer"
)

func TestMain(m *testing.M) {
	WorkerMain(func(ctx context.Context, c Config) (library.Client, error) {
		take := faulty[c.Library]
		if take == nil {
			return Open(ctx, c.URL, c.TTL, nil)
		}
		return library.Client{Close: func() error { return nil }, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
			release, err := take(ctx, c.Name)
			return &library.Hold{Release: release}, err
		}}, nil
	})
	os.Exit(m.Run())
}

// faulty are faulty libraries.
var faulty = map[string]func(ctx context.Context, name string) (release, error){
	"broken": func(context.Context, string) (release, error) { // excludes nobody
		time.Sleep(time.Millisecond)
		return func(context.Context) error { return nil }, nil
	},
	"failing": func(context.Context, string) (release, error) {
		os.Stderr.WriteString("this library has a bug\n")
		os.Exit(3)
		return nil, nil
	},
	"hanging": func(context.Context, string) (release, error) { select {} },
	"strict":  func(ctx context.Context, _ string) (release, error) { return cancellable, cancellable(ctx) },
	"single": func(_ context.Context, name string) (release, error) { // has only the lock "one"
		if name != "one" {
			return nil, errors.New("there is no lock " + name)
		}
		return func(context.Context) error { return nil }, nil
	},
}

// cancellable fails unless ctx can be canceled and has no deadline.
func cancellable(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); bounded || ctx.Done() == nil {
		return errors.New("not the context of a service's request")
	}
	return nil
}

// config is the configuration of a library in faulty, or of lockport.
func config(t *testing.T, library string) Config {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes: run go test without -short")
	}
	return Config{Library: library, URL: "file://" + t.TempDir(), TTL: time.Second}
}

// measured runs a scenario once or several times.
func measured(t *testing.T, s Scenario, c Config) *Subject {
	t.Helper()
	s.Turns = max(s.Turns, 1)
	on := &Subject{Config: c, Locks: "one"}
	require.NoError(t, s.Run(t.Context(), nil, on))
	return on
}

func TestCycle(t *testing.T) {
	on := measured(t, Scenario{Do: Cycle, N: 3, Samples: 30, For: time.Minute, Turns: 2}, config(t, ""))
	require.Empty(t, on.Failed)
	require.Equal(t, []int{60, 60}, []int{len(on.Samples["acquire"]), len(on.Samples["release"])})
	require.Positive(t, on.Samples["acquire"][0])
	require.Positive(t, on.Figure("cycles").Each[1])
	on = measured(t, Scenario{Do: Cycle, N: 1, Samples: 10}, config(t, ""))
	require.Len(t, on.Samples["acquire"], fewestCycles, "however long it takes")
	require.Empty(t, measured(t, Scenario{Do: Cycle, N: 2, Samples: 10}, config(t, "strict")).Failed)
	for shared, failed := range map[bool]int{true: 0, false: 1} {
		on = measured(t, Scenario{Do: Cycle, N: 2, Samples: 10, Shared: shared}, config(t, "single"))
		require.Len(t, on.Failed, failed, "goroutines of Shared cycles have one name, others each their own")
	}
	says := map[string]string{"hanging": context.DeadlineExceeded.Error(), "failing": "this library has a bug"}
	for library, limit := range map[string]time.Duration{"hanging": time.Second, "failing": time.Minute} { // a process may start slowly
		on = measured(t, Scenario{Do: Cycle, N: 1, Samples: 10, Limit: limit, Turns: 2}, config(t, library))
		require.Len(t, on.Failed, 2, "after a failed turn the next one runs")
		require.Contains(t, on.Failed[1], says[library])
		require.Empty(t, on.Turns)
	}
}

func TestContend(t *testing.T) {
	s := Scenario{Do: Contend, Processes: 2, N: 6, For: time.Second, Grace: 5 * time.Second}
	on := measured(t, s, config(t, ""))
	require.Empty(t, on.Failed)
	require.Zero(t, on.Figure("overlaps").Each[0])
	require.Positive(t, on.Figure("hand-offs").Each[0])

	s.N = 64
	require.Positive(t, measured(t, s, config(t, "broken")).Figure("overlaps").Each[0], "a lock that excludes nobody must be detected")
}

func TestHandOff(t *testing.T) {
	for _, processes := range []int{1, 2} {
		s := Scenario{Do: HandOff, Processes: processes, Samples: 3, For: 5 * time.Millisecond, Turns: 3}
		require.Len(t, measured(t, s, config(t, "")).Samples["times"], 9)
		require.Contains(t, measured(t, s, config(t, "broken")).Failed[0], "before the release")
	}
}

// Each turn measures each subject, starting with a different one.
func TestTurns(t *testing.T) {
	var order []string
	do := func(_ context.Context, _ Scenario, on *Subject, turn int) ([]Figure, error) {
		order = append(order, on.Library)
		return []Figure{figure("turn", "", float64(turn))}, nil
	}
	a, b := &Subject{Row: Row{Library: "a"}}, &Subject{Row: Row{Library: "b"}}
	require.NoError(t, Scenario{Do: do, Turns: 3}.Run(t.Context(), nil, a, b))
	require.Equal(t, []string{"a", "b", "b", "a", "a", "b"}, order)
	require.Equal(t, []float64{0, 1, 2}, b.Figure("turn").Each)
}

// A worker that is asked to end releases its holds, and its waiters give up.
func TestWorkers(t *testing.T) {
	c := config(t, "")
	w := peer.Must(kind.StartAll(t.Context(), c, 2))(t)
	defer w.Close()
	ask := func(i int, o order) error {
		o.Name, o.For = "a", grantLimit
		_, err := w[i].Ask(t.Context(), o)
		return err
	}
	require.NoError(t, ask(0, order{Do: "acquire"}))
	require.NoError(t, ask(1, order{Do: "wait", Goroutines: 3}))
	w[1].Close()
	require.True(t, w[1].State().Success(), "it had to be killed")
	require.NoError(t, w[0].Signal(os.Interrupt), "Ctrl-C reaches every process of a terminal")
	require.NoError(t, ask(0, order{Do: "release"}), "a worker goes on until its parent closes it")
}

// A library that does not renew its locks gets a renewal loop, if the configuration asks for it, until the release.
func TestRenewalLoop(t *testing.T) {
	var renewed atomic.Int64
	released := false
	hold := &library.Hold{
		Renew:   func(context.Context) (time.Time, error) { renewed.Add(1); return time.Time{}, nil },
		Release: func(context.Context) error { released = true; return nil },
	}
	m := &measurer{config: Config{TTL: 3 * time.Millisecond, Loop: true}}
	m.client.Take = func(context.Context, library.Claim) (*library.Hold, error) { return hold, nil }
	release := peer.Must(m.take(t.Context(), "a", true))(t)
	peer.Until(t, func() bool { return renewed.Load() > 1 })
	require.NoError(t, release(t.Context()))
	require.True(t, released)
}

func TestJudge(t *testing.T) {
	// The first asked at 1 and held the lock from 10 to 20.
	a := hold{Client: 0, Asked: 1, Got: 10, Ended: 20}
	b := hold{Client: 1, Process: 1, Asked: 2, Got: 20, Ended: 30}
	again := hold{Client: 1, Process: 1, Asked: 31, Got: 32, Ended: 33}
	late := hold{Client: 2, Asked: 3, Got: 150, Ended: 151}
	never := hold{Client: 3, Asked: 4}
	c := judge([]hold{never, late, again, b, a}, 4, 2, 100)
	require.Equal(t, contention{
		changes: 2, starved: 2, clients: []int{1, 2, 0, 0}, processes: []int{1, 2},
	}, c)

	b.Got = 19
	require.Equal(t, 1, judge([]hold{a, b}, 2, 2, 100).overlaps)
	inside, too := hold{Client: 2, Got: 25, Ended: 26}, hold{Client: 2, Got: 27, Ended: 28}
	require.Equal(t, 3, judge([]hold{a, b, inside, too}, 3, 2, 100).overlaps, "a long hold with others in it")
}
