package main

import (
	"context"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

const (
	explainAfter = time.Second // how long a person waits before being told for whom
	explainLimit = time.Second // how long finding out who has a lock may take
)

// explainWaiting tells a person at a terminal who has the lock, if Acquire takes long. stop ends that, and returns when
// nothing more will be written.
func explainWaiting(ctx context.Context, c *console, client *lockport.Client, name string) (stop func()) {
	if !c.interactive {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-ctx.Done():
			return
		case <-time.After(explainAfter):
		}
		holder := holder(ctx, client, name)
		if ctx.Err() == nil {
			c.say("waiting for %q, held by %s", name, holder)
		}
	}()
	return func() { cancel(); <-done }
}

// holder says who has the lock and since when, as far as that is known.
func holder(ctx context.Context, client *lockport.Client, name string) string {
	const nobodyKnown = "somebody else"
	inspector, ok := driver.As[driver.Inspector](client.Backend())
	if !ok {
		return nobodyKnown
	}
	ctx, cancel := context.WithTimeout(ctx, explainLimit)
	defer cancel()
	s, err := inspector.Inspect(ctx, name)
	if err != nil || !s.Held || s.Owner == "" {
		return nobodyKnown
	}
	who := s.Owner
	if part := driver.OwnerClient(s.Owner); part != "" && !s.Foreign {
		who = part
	}
	who = printable(who)
	if !s.Since.IsZero() {
		who += " since " + s.Since.Local().Format(time.DateTime)
	}
	return who
}

// printable keeps what a foreign client wrote from playing with the terminal, or filling it.
func printable(s string) string {
	const limit = 100
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return '?'
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if r := []rune(s); len(r) > limit {
		s = string(r[:limit]) + "…"
	}
	return s
}
