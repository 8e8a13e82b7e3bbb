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

// Fence is where the token of the latest holder is kept: one key, whose value is the token in decimal. Safe for concurrent use.
type Fence struct {
	client goredis.UniversalClient
	place  fencecheck.Place
}

// New makes a fence at key on client: a *redis.Client, also one for Sentinel, or a *redis.ClusterClient. It does no I/O, needs no closing, and
// does not close client. The data that it guards are on the same server; in a Cluster they have the same hash tag.
func New(client goredis.UniversalClient, key string) (*Fence, error) {
	switch client.(type) {
	case nil:
		return nil, errors.New("redisfence: the client is nil")
	case *goredis.Ring:
		return nil, fmt.Errorf("redisfence: %w: a Ring moves keys to another server when one is down; use a single server, Sentinel or Cluster",
			errors.ErrUnsupported)
	}
	if key == "" {
		return nil, errors.New("redisfence: the fence's key is empty")
	}
	return &Fence{client, fencecheck.Place{Package: "redisfence", Key: key}}, nil
}

// Key is the fence's key. Delete it when the data that it guards are gone, and no holder is left.
func (f *Fence) Key() string { return f.place.Key }

// Register records that token's holder is the latest, in one request, and returns the guard for its writes. A holder registers before it reads.
// Registering a token again, at once or later, is no error as long as no greater one is registered.
//
// The error matches fence.ErrStale if a greater token is registered; that holder has the lock, or had it after this one.
func (f *Fence) Register(ctx context.Context, token lockport.Token) (*Guard, error) {
	return f.register(ctx, token, nil)
}

// RegisterLock is Register with the token of l, a lock on the same Redis (in a Cluster: whose key has the slot of the fence's). The lock's own key is
// checked here and by every write: the error matches lockport.ErrLost, and fence.ErrStale, once the lock is gone. A reader's lock and a permit are
// refused: no key of theirs says that they are held.
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

// What our part of a script replies instead of running the rest.
const (
	staleReply = "LOCKPORTFENCE " // and what is registered, noToken, or nothing
	lostReply  = "LOCKPORTLOCK "
	noToken    = "?"
)

// explain makes the error of a request of err, which came from go-redis. Error replies of the caller's own script pass unchanged.
func (g *Guard) explain(did string, sent bool, err error) error {
	var reply goredis.Error
	isReply, text, place := errors.As(err, &reply), err.Error(), g.fence.place
	seen, isStale := strings.CutPrefix(text, staleReply)
	switch {
	case isReply && isStale:
		return place.Refuse(g.token, seen)
	case isReply && strings.HasPrefix(text, lostReply):
		return place.Lost(g.lock.Key)
	case errors.Is(err, goredis.Nil):
		return err
	case strings.HasPrefix(text, "CROSSSLOT") || strings.HasPrefix(text, "MOVED") || strings.Contains(text, "non local key") ||
		strings.Contains(text, "keys to be in the same slot"): // Redis says so, or go-redis before it asks
		return place.Explain(did, fmt.Errorf("in a Cluster all keys need the fence key's hash tag: %w", err))
	case isReply && strings.HasPrefix(text, "WRONGTYPE") && did == "register":
		return place.Refuse(g.token, noToken)
	case isReply:
		return place.Explain(did, err)
	}
	return place.Explain(did, redisscript.Classify(err, sent))
}
