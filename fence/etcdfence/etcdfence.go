package etcdfence

import (
	"context"
	"errors"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/etcd"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/fencecheck"
)

// Fence is where the token of the latest holder is kept: one key, whose value is the token in 20 decimal digits, so that etcd, which compares
// bytes, compares numbers. Safe for concurrent use.
type Fence struct {
	client *clientv3.Client
	key    string
}

// New makes a fence at key on client. It does no I/O, needs no closing, and does not close client. All goes through client.KV: if that is a wrapper
// of package namespace, the fence is below its prefix too, and RegisterLock, which needs the lock's key as it is, cannot be used.
func New(client *clientv3.Client, key string) (*Fence, error) {
	switch {
	case client == nil || client.KV == nil:
		return nil, errors.New("etcdfence: the client is nil, or was not made with clientv3.New")
	case key == "":
		return nil, errors.New("etcdfence: the fence's key is empty")
	}
	return &Fence{client: client, key: key}, nil
}

// Key is the fence's key. Delete it when the data that it guards are gone, and no holder is left.
func (f *Fence) Key() string { return f.key }

// Register says that token's holder is the latest, in one transaction, and returns the guard for its writes. A holder registers before it reads.
// Registering a token again, at once or later, is no error as long as no greater one is registered.
//
// The error matches fence.ErrStale if a greater token is registered; that holder has the lock, or had it after this one.
func (f *Fence) Register(ctx context.Context, token lockport.Token) (*Guard, error) {
	return f.register(ctx, token, nil)
}

// RegisterLock is Register with the token of l, a lock on the same etcd. The lock's own key is compared here and by every write: the error matches
// lockport.ErrLost, and fence.ErrStale, once the lock is gone.
func (f *Fence) RegisterLock(ctx context.Context, l *lockport.Lock) (*Guard, error) {
	var k etcd.Key
	if !l.As(&k) {
		return nil, errors.New("etcdfence: RegisterLock needs a lock of the backend etcd: use Register with the token of any other")
	}
	token, _ := l.Token()
	return f.register(ctx, token, &k)
}

// digits is the length of a token's value, which the greatest token has.
const digits = 20

// lowest is the value of the smallest token.
var lowest = format(1)

// format is the value of a token.
func format(token lockport.Token) string { return fmt.Sprintf("%0*d", digits, uint64(token)) }

// parse reads the value of a token. false: it is none.
func parse(value string) (lockport.Token, bool) {
	token, ok := fencecheck.Parse(value)
	return token, ok && len(value) == digits
}

func (f *Fence) register(ctx context.Context, token lockport.Token, lock *etcd.Key) (*Guard, error) {
	if err := fence.Check("", token, 0); err != nil {
		return nil, fmt.Errorf("etcdfence: %w", err)
	}
	g := &Guard{fence: f, token: token, lock: lock}
	look := clientv3.OpGet(f.key)
	// A key that is missing fails every comparison of its value.
	unless := clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Value(f.key), "<", lowest)}, // something else
		[]clientv3.Op{look}, []clientv3.Op{clientv3.OpPut(f.key, format(token))})
	r, err := f.client.Txn(ctx).If(g.held()...).
		Then(clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.Value(f.key), ">", format(token))}, []clientv3.Op{look}, []clientv3.Op{unless})).
		Else(look).Commit()
	if err != nil {
		return nil, g.explain("register", err)
	}
	seen, put := registered(r)
	switch n, ok := parse(seen); {
	case put:
		return g, nil
	case !r.Succeeded && !(ok && n > token):
		return nil, g.lost()
	}
	return nil, g.refused(seen)
}

// registered reads the answer to register: whether it put the token, or else what the fence has.
func registered(r *clientv3.TxnResponse) (seen string, put bool) {
	if !r.Succeeded {
		return value(r), false
	}
	greater := nested(r, 0)
	if greater.Succeeded {
		return value(greater), false
	}
	none := nested(greater, 0)
	return value(none), !none.Succeeded
}
