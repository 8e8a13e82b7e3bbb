package zkfence

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport"
)

// Guard writes for one holder, whose token is registered. Its writes are refused, with errors that match fence.ErrStale, from the moment at which a
// greater token is registered. Safe for concurrent use.
type Guard struct {
	fence *Fence
	token lockport.Token
	lock  string // the lock's node, checked too; empty: not
}

// Token is the holder's.
func (g *Guard) Token() lockport.Token { return g.token }

// Checks are the conditions under which the holder may write, for a multi of the caller's own that begins with them: that the fence has its token
// and, after RegisterLock, that the lock's node is there. Each is a *zk.CheckVersionRequest and has an answer of its own.
func (g *Guard) Checks() []any {
	return append([]any{&zk.CheckVersionRequest{Path: g.child(), Version: -1}}, g.held()...)
}

// held are the conditions for the lock itself.
func (g *Guard) held() []any {
	if g.lock == "" {
		return nil
	}
	return []any{&zk.CheckVersionRequest{Path: g.lock, Version: -1}}
}

// child is the node that is there while the token is the latest.
func (g *Guard) child() string { return g.fence.path + "/" + format(g.token) }

// Multi carries out ops, which are those of zk.Conn.Multi, in one transaction if the token is still the latest. The answers are theirs, in order.
// If one of them fails, none has an effect, and the error matches that of ZooKeeper.
func (g *Guard) Multi(ctx context.Context, ops ...any) ([]zk.MultiResponse, error) {
	checks := g.Checks()
	results, err := g.fence.multi(ctx, append(checks[:len(checks):len(checks)], ops...))
	switch {
	case len(results) < len(checks):
		return nil, g.explain("write", err)
	case errors.Is(results[0].Error, zk.ErrNoNode):
		return nil, g.why(ctx)
	case len(checks) > 1 && errors.Is(results[1].Error, zk.ErrNoNode):
		return nil, g.lost()
	}
	return results[len(checks):], g.explain("write", err)
}

// Set sets the data of the node path, whose version must be version; -1: whatever it is.
func (g *Guard) Set(ctx context.Context, path string, data []byte, version int32) (*zk.Stat, error) {
	results, err := g.Multi(ctx, &zk.SetDataRequest{Path: path, Data: data, Version: version})
	if err != nil {
		return nil, err
	}
	return results[0].Stat, nil
}
