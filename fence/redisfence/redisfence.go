package redisfence

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/fence"
)

// Fence is where the token of the latest holder is kept: one key, whose value is the token in decimal. Safe for concurrent use.
type Fence struct {
	client goredis.UniversalClient
	key    string
}

// New makes a fence at key on client: a *redis.Client, also one for Sentinel, or a *redis.ClusterClient. It does no I/O, needs no closing, and
// does not close client. The data that it guards are on the same server; in a Cluster they have the same hash tag.
func New(client goredis.UniversalClient, key string) (*Fence, error) {
	switch client.(type) {
	case nil:
		return nil, errors.New("redisfence: the client is nil")
	case *goredis.Ring:
		return nil, fmt.Errorf("redisfence: %w: a Ring moves keys to another server when one is away; use a single server, Sentinel or Cluster",
			errors.ErrUnsupported)
	}
	if key == "" {
		return nil, errors.New("redisfence: the fence's key is empty")
	}
	return &Fence{client: client, key: key}, nil
}

// Key is the fence's key. Delete it when the data that it guards are gone, and no holder is left.
func (f *Fence) Key() string { return f.key }

// Register says that token's holder is the latest, in one request, and returns the guard for its writes. A holder registers before it reads.
// Registering a token again, at once or later, is no error as long as no greater one is registered.
//
// The error matches fence.ErrStale if a greater token is registered; that holder has the lock, or had it after this one.
func (f *Fence) Register(ctx context.Context, token lockport.Token) (*Guard, error) {
	return f.register(ctx, token, nil)
}

// RegisterLock is Register with the token of l, a lock on the same Redis (in a Cluster: whose key has the slot of the fence's). The lock's own key is
// checked here and by every write: the error matches lockport.ErrLost, and fence.ErrStale, once the lock is gone.
func (f *Fence) RegisterLock(ctx context.Context, l *lockport.Lock) (*Guard, error) {
	var e redis.Entry
	if !l.As(&e) {
		return nil, errors.New("redisfence: RegisterLock needs a lock of the backend redis: use Register with the token of any other")
	}
	token, _ := l.Token()
	return f.register(ctx, token, &e)
}

func (f *Fence) register(ctx context.Context, token lockport.Token, lock *redis.Entry) (*Guard, error) {
	if err := fence.Check("", token, 0); err != nil {
		return nil, fmt.Errorf("redisfence: %w", err)
	}
	g := &Guard{fence: f, token: token, text: strconv.FormatUint(uint64(token), 10), lock: lock}
	script, keys, argv := register, []string{f.key}, []any{g.text}
	if lock != nil {
		script, keys, argv = registerLock, append(keys, lock.Key), append(argv, lock.Value)
	}
	if _, sent, err := script.RunOnce(ctx, f.client, keys, argv); err != nil {
		return nil, g.explain("register", sent, err)
	}
	return g, nil
}
