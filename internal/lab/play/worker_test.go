package play

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/environment"
)

// inFolder plays a cell on file locks, and returns what did not end well.
func inFolder(t *testing.T, c Cell) (stuck string, err error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	played, err := Play(ctx, environment.Need(t, "file"), &c, 1)
	require.NotNil(t, played)
	return strings.Join(played.Stuck, "\n"), err
}

// A crash of a worker is reported, although another worker replaces it.
func TestAWorkerThatCrashesIsTold(t *testing.T) {
	stuck, err := inFolder(t, Cell{Fault: "f", Inject: func(s *Phase) { s.Holder().process.Kill() }})
	require.NoError(t, err)
	require.Contains(t, stuck, "ended unasked (signal: killed)")
	require.Equal(t, 1, strings.Count(stuck, "worker"), stuck)
}

// A request to a worker that has ended fails at once, not at the end of the phase.
func TestAWorkerThatHasEndedIsNotWaitedFor(t *testing.T) {
	stuck, err := inFolder(t, Cell{Fault: "f", Script: func(s *Phase) {
		w, holder := s.Two()
		s.Acquire(holder)
		time.AfterFunc(100*time.Millisecond, w.Kill)
		Must(w.Acquire(s.Name(), time.Minute))
	}})
	require.ErrorContains(t, err, "worker w1: the worker's process has ended")
	require.Empty(t, stuck, "it was killed")
}

// Races inside go-zookeeper are not lockport's; a race with any other location is.
func TestDataRaces(t *testing.T) {
	const ours, recv, set = "github.com/lockport/lockport.(*Client).x", "github.com/go-zookeeper/zk.(*Conn).recvLoop", "github.com/go-zookeeper/zk.(*Conn).sendSetWatches"
	race := func(a, b string) string {
		return fmt.Sprintf("WARNING: DATA RACE\nWrite at 0x00c000460600 by goroutine 75:\n  %s()\n      conn.go:849 +0x68c\n  %s()\n      other.go:1\n\n"+
			"Previous read at 0x00c000460600 by goroutine 18:\n  %s()\n      conn.go:614\n\nGoroutine 75 (running) created at:\n  %s()\n", a, ours, b, ours)
	}
	for printed, want := range map[string][2]int{
		"":                                    {0, 0},
		race(recv, set):                       {1, 1},
		race(recv, set) + race(ours, set):     {2, 1},
		race(ours, ours):                      {1, 0},
		"WARNING: DATA RACE\nby nobody known": {1, 0},
	} {
		all, foreign := dataRaces(printed)
		require.Equal(t, want, [2]int{all, foreign}, printed)
	}
}
