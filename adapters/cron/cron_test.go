package cronlock_test

import (
	"context"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	cronlock "github.com/lockport/lockport/adapters/cron"
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
	s, err := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow).Parse(ticks.Spec)
	if err != nil {
		return err
	}
	once := cronlock.Once(client, m.Job, cron.DiscardLogger, lockport.MinHold(ticks.MinHold))
	c := cron.New()
	c.Schedule(early{s, m.Ahead}, cron.NewChain(once).Then(cron.FuncJob(job)))
	c.Start()
	<-ctx.Done()
	<-c.Stop().Done()
	return nil
}

// early is a schedule for a clock that runs ahead.
type early struct {
	cron.Schedule
	by time.Duration
}

func (s early) Next(t time.Time) time.Time { return s.Schedule.Next(t.Add(s.by)).Add(-s.by) }

// Two machines with differing clocks share a real server. The first is sometimes killed during a run. No tick runs twice, thanks to
// MinHold, and none is missed.
func TestTwoMachines(t *testing.T) { ticks.Run(t, servers.SharedRedis(t).URL(), "job") }

// lines receives the log.
type lines chan string

func (l lines) Info(text string, _ ...any)           { l <- text }
func (l lines) Error(_ error, text string, _ ...any) { l <- text }

// A run that is due while another process has the lock is skipped and logged. The loss of the lock ends the context of a job. A panic
// releases the lock.
func TestOnce(t *testing.T) {
	server, logged := memory.NewServer(), make(lines, 1)
	began, over := make(chan bool, 1), make(chan error, 1)
	machine := func(job cron.Job) cron.Job {
		return cron.NewChain(cronlock.Once(peer.Client(t, memorytest.NewBackend(server, nil)), "job", logged)).Then(job)
	}
	a := machine(cronlock.Func(func(ctx context.Context) {
		began <- true
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		<-ctx.Done()
		over <- context.Cause(ctx)
	}))
	go a.Run()
	<-began
	b := machine(cron.FuncJob(func() { panic("b") }))
	b.Run()
	require.Equal(t, "skip: locked", <-logged)
	a.Run()
	require.Equal(t, "skip: locked", <-logged, "an earlier run in this process has the lock")
	server.Lose("job", nil)
	require.ErrorIs(t, <-over, lockport.ErrLost)
	require.Equal(t, "lock failed during the run", <-logged)
	for range 2 {
		require.PanicsWithValue(t, "b", b.Run)
	}

	closed := peer.Client(t, memorytest.NewBackend(server, nil))
	require.NoError(t, closed.Close())
	cronlock.Once(closed, "job", logged)(cronlock.Func(func(context.Context) { t.Error("runs without a lock") })).Run()
	require.Equal(t, "skip: no lock", <-logged)

	cronlock.Func(func(ctx context.Context) { began <- ctx.Err() == nil }).Run()
	require.True(t, <-began, "without a lock")
}
