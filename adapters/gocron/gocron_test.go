package gocronlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	gocronlock "github.com/lockport/lockport/adapters/gocron"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	_ "github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/internal/lab/ticks"
)

func TestMain(m *testing.M) {
	ticks.Main(schedule)
	m.Run()
}

// schedule runs on one machine.
func schedule(ctx context.Context, m ticks.Machine, client *lockport.Client, job func()) error {
	by := gocron.WithDistributedLocker(gocronlock.NewLocker(client, lockport.MinHold(ticks.MinHold)))
	if m.Job == "elector" {
		by = gocron.WithDistributedElector(gocronlock.NewElector(client, m.Job))
	}
	s, err := gocron.NewScheduler(by, gocron.WithClock(shifted{clockwork.NewRealClock(), m.Ahead}))
	if err != nil {
		return err
	}
	if _, err := s.NewJob(gocron.CronJob(ticks.Spec, true), gocron.NewTask(job), gocron.WithName(m.Job)); err != nil {
		return err
	}
	s.Start()
	<-ctx.Done()
	return s.Shutdown()
}

// shifted is a clock that runs ahead.
type shifted struct {
	clockwork.Clock
	by time.Duration
}

func (c shifted) Now() time.Time                  { return c.Clock.Now().Add(c.by) }
func (c shifted) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
func (c shifted) Until(t time.Time) time.Duration { return t.Sub(c.Now()) }

// Two machines with differing clocks share a real server. The first is sometimes killed during a run. No tick runs twice, thanks to
// MinHold, and none is missed.
func TestTwoMachines(t *testing.T) {
	for _, job := range []string{"locker", "elector"} {
		t.Run(job, func(t *testing.T) {
			t.Parallel()
			ticks.Run(t, servers.SharedRedis(t).URL(), job)
		})
	}
}

// A job that is due while another process runs it is skipped. The loss of the lock ends its context.
func TestJobIsToldOfTheLoss(t *testing.T) {
	server, skipped := memory.NewServer(), make(chan error, 1)
	began, over := make(chan string, 1), make(chan error, 1)
	machine := func(name string) gocron.Job {
		locker := gocronlock.NewLocker(peer.Client(t, memorytest.NewBackend(server, nil)))
		s := peer.Must(gocron.NewScheduler(gocron.WithDistributedLocker(locker)))(t)
		t.Cleanup(func() { _ = s.Shutdown() })
		s.Start()
		return peer.Must(s.NewJob(gocron.DurationJob(time.Hour), gocron.NewTask(func(ctx context.Context) {
			ctx, cancel := locker.Context(ctx, "job")
			defer cancel()
			began <- name
			ctx, cancel = context.WithTimeout(ctx, 10*time.Second)
			defer cancel()
			<-ctx.Done()
			over <- context.Cause(ctx)
		}), gocron.WithName("job"), gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, name string, err error) { skipped <- err }))))(t)
	}
	a, b := machine("a"), machine("b")
	require.NoError(t, a.RunNow())
	require.Equal(t, "a", <-began)
	require.NoError(t, b.RunNow())
	require.ErrorIs(t, <-skipped, lockport.ErrHeld)
	server.Lose("job", nil)
	require.ErrorIs(t, <-over, lockport.ErrLost)
	require.NoError(t, b.RunNow())
	require.Equal(t, "b", <-began)
}

// A run that ends after its lock was lost does not end the next run's context.
func TestContextIsOfTheLatestRun(t *testing.T) {
	server, ctx := memory.NewServer(), t.Context()
	locker := gocronlock.NewLocker(peer.Client(t, memorytest.NewBackend(server, nil)))
	during := func() error {
		ctx, cancel := locker.Context(ctx, "job")
		defer cancel()
		return ctx.Err()
	}
	require.Error(t, during(), "no run")
	first := peer.Must(locker.Lock(ctx, "job"))(t)
	server.Lose("job", nil)
	second := peer.Must(locker.Lock(ctx, "job"))(t)
	require.ErrorIs(t, first.Unlock(ctx), lockport.ErrLost)
	require.NoError(t, during())
	require.NoError(t, second.Unlock(ctx))
	require.Error(t, during(), "no run")
}

// One process leads until it resigns or loses its lock. Then its jobs' contexts end. A process that ends resigns with the context that ended it.
func TestElector(t *testing.T) {
	server, ctx := memory.NewServer(), t.Context()
	client := func() *lockport.Client { return peer.Client(t, memorytest.NewBackend(server, nil)) }
	a, b := gocronlock.NewElector(client(), "leader"), gocronlock.NewElector(client(), "leader")
	require.NoError(t, a.Resign(ctx), "Resign without leading")
	require.NoError(t, a.IsLeader(ctx))
	require.NoError(t, a.IsLeader(ctx))
	require.ErrorIs(t, b.IsLeader(ctx), lockport.ErrHeld)
	leading, cancel := a.Context(ctx)
	defer cancel()
	require.NoError(t, leading.Err())
	server.Lose("leader", nil)
	require.ErrorIs(t, context.Cause(leading), lockport.ErrLost)
	require.NoError(t, b.IsLeader(ctx))
	require.ErrorIs(t, a.IsLeader(ctx), lockport.ErrHeld)
	over, cancel := a.Context(ctx)
	defer cancel()
	require.ErrorIs(t, context.Cause(over), lockport.ErrReleased)
	for range 20 {
		require.NoError(t, b.Resign(over), "its lock must be released all the same")
		require.NoError(t, a.IsLeader(ctx))
		a, b = b, a
	}
}

// A campaign that gets no answer delays no other job beyond its context.
func TestCampaignDelaysNobody(t *testing.T) {
	b := memorytest.NewBackend(nil, nil)
	e := gocronlock.NewElector(peer.Client(t, b), "leader")
	asked := b.DelayNext(memorytest.Claim, time.Minute)
	campaign := make(chan error, 1)
	go func() { campaign <- e.IsLeader(context.Background()) }()
	<-asked
	leading, cancel := e.Context(t.Context())
	defer cancel()
	require.Error(t, leading.Err())
	short := peer.Within(t, 10*time.Millisecond)
	require.ErrorIs(t, e.IsLeader(short), context.DeadlineExceeded)
	require.ErrorIs(t, e.Resign(short), context.DeadlineExceeded)
	b.Cut()
	require.ErrorIs(t, <-campaign, lockport.ErrUnavailable)

	b.DelayNext(memorytest.Claim, 100*time.Millisecond)
	for range 2 { // the second waits for the first, and leads too
		go func() { campaign <- e.IsLeader(context.Background()) }()
	}
	require.NoError(t, <-campaign)
	require.NoError(t, <-campaign)
}
