package redisscript

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// Whoever comes after others were nudged looks for the end of his context too.
func TestPipeNudgesAgain(t *testing.T) {
	const rounds = maxActive
	c := &stuckClient{free: make(chan struct{})}
	c.stuck.Store(rounds)
	p := NewPipe(c, 0, 0)
	for range rounds {
		left := c.stuck.Load()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		reply := make(chan Reply, 1)
		go func() { reply <- p.Run(ctx, echo, echoArgs(1), false) }()
		require.Eventually(t, func() bool { return c.stuck.Load() < left }, 5*time.Second, time.Millisecond)
		cancel()
		select {
		case r := <-reply:
			require.ErrorIs(t, r.Err, driver.ErrUnknown)
		case <-time.After(5 * time.Second):
			require.Fail(t, "the caller is held up")
		}
	}
	close(c.free)
	p.Close()
}

// What is too much for one pipeline does not wait for it.
func TestPipeGoesAroundAFullOne(t *testing.T) {
	c := &stuckClient{free: make(chan struct{})}
	c.stuck.Store(1)
	p := NewPipe(c, 0, 0)
	var args [][]any
	for i := range maxBatch + 1 {
		args = append(args, echoArgs(i))
	}
	replies := make(chan []Reply, 1)
	go func() { replies <- p.RunAll(t.Context(), echo, args, false) }()
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.workers) == 2 && len(p.waiting) == 0
	}, 5*time.Second, time.Millisecond)
	close(c.free)
	for _, r := range <-replies {
		require.Equal(t, Reply{Value: "ok"}, r)
	}
	p.Close()
}

// Others that come while all who came to the rescue hang are rescued too.
func TestPipeRescuesAgain(t *testing.T) {
	c := &stuckClient{free: make(chan struct{})}
	p := NewPipe(c, 0, 0)
	replies := make(chan Reply, maxActive+3)
	hanging := hangWorkers(t.Context(), t, p, c, replies)
	for range 3 {
		c.stuck.Store(1)
		go func() { replies <- p.Run(t.Context(), echo, echoArgs(1), false) }()
		require.Eventually(t, func() bool { return c.stuck.Load() <= 0 }, 5*time.Second, time.Millisecond)
	}
	close(c.free)
	for range hanging + 3 {
		require.NoError(t, (<-replies).Err)
	}
	p.Close()
}

// Of the connections of those that came to the rescue few stay.
func TestPipeKeepsFewWires(t *testing.T) {
	p := pipeOf(t, sharedOptions(t))
	var all []*worker
	for range maxActive + maxExtra {
		p.mu.Lock()
		w := p.newWorker()
		p.mu.Unlock()
		_, _, err := w.wire.run(t.Context(), []any{ping})
		require.NoError(t, err)
		all = append(all, w)
	}
	open := 0
	for _, w := range all {
		p.mu.Lock()
		p.leave(w)
	}
	for _, w := range all {
		open += len(w.wire.conns)
	}
	require.Equal(t, maxActive, open)
	require.Len(t, p.wires, maxActive)
	require.Empty(t, p.workers)
}

// A pipeline has as much time as whoever has most, and any time if one of them has.
func TestLatest(t *testing.T) {
	zero := time.Now()
	at := func(s int) *call { return &call{deadline: zero.Add(time.Duration(s) * time.Second)} }
	require.Equal(t, zero.Add(3*time.Second), latest([]*call{at(1), at(3), at(2)}))
	require.Zero(t, latest([]*call{at(1), {}, at(2)}))
}
