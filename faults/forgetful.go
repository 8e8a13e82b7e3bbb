package faults

import (
	"context"
	"fmt"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// forgetful is a server that can lose its data while it is down.
type forgetful interface {
	environment.Node
	WipeData() error
}

// wipe kills a server and starts it again without its data.
func wipe(ctx context.Context, s forgetful) error {
	if err := s.Kill(); err != nil {
		return err
	}
	if err := s.WipeData(); err != nil {
		return err
	}
	return s.Restart(ctx)
}

// forgets is the one cell of environments with a single server that keeps its claims and its counter of tokens on its disk. Of several servers, as many as
// decide together would have to lose their disks.
func forgets(counter string) []play.Cell {
	return []play.Cell{{
		Fault: "server-restarted-empty", Outcome: play.Unsafe, Script: restartedEmpty, Tries: 3,
		Why: "A server that comes back without its data, or restored from a backup, knows of no holder and grants anew, while one whose link is silent believes until its " +
			"deadline; and its " + counter + " begins anew, so that tokens repeat: the resource must forget those that it has seen.",
	}}
}

// restartedEmpty has a worker take a lock, which had others before it, and then not hear from the server for a while. Meanwhile that is killed, loses its data
// and comes back, and another worker takes the lock, with a token that is no greater.
func restartedEmpty(ctx context.Context, p *play.Phase) error {
	server := granting(p).(forgetful)
	older, err := p.Worker(ctx)
	if err != nil {
		return err
	}
	var had *play.Hold
	const holds = 20 // more than the server does by itself when it starts
	for i := range holds {
		if had, err = older.Acquire(ctx, p.Name(), p.Environment.TTL); err != nil {
			return err
		}
		if i == holds-1 {
			break
		}
		if err := had.Release(ctx); err != nil {
			return err
		}
	}
	older.Endpoint.Links.Each((*faultproxy.Proxy).Freeze)
	p.Injected()
	p.Note("the server is killed, loses its disk and starts again")
	if err := wipe(ctx, server); err != nil {
		return err
	}
	p.Healed()
	newer, err := p.Worker(ctx) // a ZooKeeper refuses clients that have seen more than it knows, until they give their session up
	if err != nil {
		return err
	}
	has, err := newer.Acquire(ctx, p.Name(), p.Environment.TTL)
	if err != nil {
		return err
	}
	if has.Token > had.Token {
		return fmt.Errorf("after token %d came %d: the server has not forgotten everything", had.Token, has.Token)
	}
	return p.Both(ctx, had, has)
}
