// Package redishook records the commands of a go-redis client, for the tests of the Redis backends.
package redishook

import (
	"context"
	"fmt"
	"slices"
	"sync"

	goredis "github.com/redis/go-redis/v9"
)

// Hook is a goredis.Hook, like a tracer: it records every command. Safe for concurrent use.
type Hook struct {
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
		h.note(cmd)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements goredis.Hook.
func (h *Hook) ProcessPipelineHook(next goredis.ProcessPipelineHook) goredis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []goredis.Cmder) error {
		h.note(cmds...)
		return next(ctx, cmds)
	}
}

func (h *Hook) note(cmds ...goredis.Cmder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, cmd := range cmds {
		h.seen = append(h.seen, fmt.Sprint(cmd.Args()...))
	}
}
