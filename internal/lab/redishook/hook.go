// Package redishook records, skips and refuses the commands of a go-redis client, for the tests of the Redis backends.
package redishook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"
)

// Hook is a goredis.Hook, like a tracer: it records every command. Safe for concurrent use.
type Hook struct {
	Skip atomic.Bool // the next request is recorded, but not sent; false again afterwards

	mu   sync.Mutex
	seen []string
}

// Take returns how many recorded commands match, and forgets those.
func (h *Hook) Take(match func(command []byte) bool) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := len(h.seen)
	h.seen = slices.DeleteFunc(h.seen, func(text string) bool { return match([]byte(text)) })
	return before - len(h.seen)
}

// DialHook implements goredis.Hook.
func (h *Hook) DialHook(next goredis.DialHook) goredis.DialHook { return next }

// ProcessHook implements goredis.Hook.
func (h *Hook) ProcessHook(next goredis.ProcessHook) goredis.ProcessHook {
	return func(ctx context.Context, cmd goredis.Cmder) error {
		if h.note(cmd) {
			return nil
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements goredis.Hook.
func (h *Hook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		if h.note(cmds...) {
			return nil
		}
		return next(ctx, cmds)
	}
}

// note records a request, and reports whether to skip it.
func (h *Hook) note(cmds ...goredis.Cmder) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, cmd := range cmds {
		h.seen = append(h.seen, fmt.Sprint(cmd.Args()...))
	}
	return h.Skip.CompareAndSwap(true, false)
}

// Limiter is a goredis.Limiter.
type Limiter struct {
	Refuse atomic.Bool // the next request is refused; false again afterwards
}

// Allow implements goredis.Limiter.
func (l *Limiter) Allow() error {
	if l.Refuse.CompareAndSwap(true, false) {
		return errors.New("refused by the limiter")
	}
	return nil
}

// ReportResult implements goredis.Limiter.
func (*Limiter) ReportResult(error) {}
