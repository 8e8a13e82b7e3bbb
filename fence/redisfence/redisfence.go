package redisfence

import (
	"context"
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/fencecheck"
	"github.com/lockport/lockport/internal/redisscript"
)

// Fence keeps the latest holder's token in one key, in decimal. Safe for concurrent use.
type Fence struct {
	pipe  *redisscript.Pipe
	place fencecheck.Place
}

// New makes a fence at key on client: a *redis.Client (also for Sentinel) or a *redis.ClusterClient. It does no I/O, needs no closing, and does
// not close client. The guarded data must be on the same server; in a Cluster they must have the same hash tag.
func New(client goredis.UniversalClient, key string) (*Fence, error) {
	_, ring := client.(*goredis.Ring)
	switch {
	case redisscript.IsNil(client):
		return nil, errors.New("redisfence: the client is nil")
	case ring:
		return nil, fmt.Errorf("redisfence: %w: a Ring moves keys to another server when one is down; use a single server, Sentinel or Cluster",
			errors.ErrUnsupported)
	case key == "":
		return nil, errors.New("redisfence: the fence's key is empty")
	}
	return &Fence{redisscript.NewPipe(client, 0, 0), fencecheck.Place{Package: "redisfence", Key: key}}, nil
}

// Key is the fence's key. Delete it when the guarded data are gone and no holder is left.
func (f *Fence) Key() string { return f.place.Key }

// Register makes token's holder the latest, in one request, and returns the guard for its writes. A holder registers before it reads. You may
// register a token again at any time while no greater one is registered.
//
// The error matches fence.ErrStale if a greater token is registered: its holder has the lock, or had it after this one.
func (f *Fence) Register(ctx context.Context, token lockport.Token) (*Guard, error) {
	return f.register(ctx, token, nil)
}

// RegisterLock is Register with the token of l, a lock on the same Redis; in a Cluster its key must be in the fence's slot. RegisterLock and every
// write also check the lock's own key: the error matches lockport.ErrLost and fence.ErrStale once the lock is gone. Readers' locks and permits
// are refused: no key proves that they are held.
func (f *Fence) RegisterLock(ctx context.Context, l *lockport.Lock) (*Guard, error) {
	var entry redis.Entry
	token, err := f.place.Holder(l, "redis, neither a reader's nor a permit", &entry)
	if err != nil {
		return nil, err
	}
	return f.register(ctx, token, &entry)
}

func (f *Fence) register(ctx context.Context, token lockport.Token, lock *redis.Entry) (*Guard, error) {
	if err := fence.Check("", token, 0); err != nil {
		return nil, f.place.Explain("register", err)
	}
	g := &Guard{fence: f, token: token, lock: lock}
	_, err := g.run(ctx, "register", register, nil, nil)
	if err != nil {
		return nil, err
	}
	return g, nil
}

// What the guard's lines reply instead of running the rest of the script.
const (
	staleReply = "LOCKPORTFENCE " // then what is registered: a token, noToken, or nothing
	lostReply  = "LOCKPORTLOCK "
	noToken    = "?"
)

// explain wraps an error of the pipe. Error replies of the caller's own script pass unchanged.
func (g *Guard) explain(did string, err error) error {
	place := g.fence.place
	if reply, ok := errors.AsType[goredis.Error](err); ok {
		err = reply // without its class
	}
	text := err.Error()
	seen, isStale := strings.CutPrefix(text, staleReply)
	switch {
	case isStale:
		return place.Refuse(g.token, seen)
	case strings.HasPrefix(text, lostReply):
		return place.Lost(g.lock.Key)
	case strings.HasPrefix(text, "CROSSSLOT") || strings.HasPrefix(text, "MOVED") || strings.Contains(text, "non local key"):
		return place.Explain(did, fmt.Errorf("in a Cluster all keys need the fence key's hash tag: %w", err))
	case strings.HasPrefix(text, "WRONGTYPE") && did == "register":
		return place.Refuse(g.token, noToken)
	}
	return place.Explain(did, err)
}
