package etcdfence

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/etcd"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/internal/fencecheck"
)

// Fence keeps the latest holder's token in one key. The value is the token in 20 decimal digits, so that etcd, which compares bytes, orders
// tokens as numbers. Safe for concurrent use.
type Fence struct {
	client *clientv3.Client
	place  fencecheck.Place
}

// New makes a fence at key on client. It does no I/O, needs no closing, and does not close client. Every request goes through client.KV. If that
// is a wrapper of package namespace, the fence is below its prefix. Then do not use RegisterLock: it needs the lock's unprefixed key.
func New(client *clientv3.Client, key string) (*Fence, error) {
	switch {
	case client == nil || client.KV == nil:
		return nil, errors.New("etcdfence: the client is nil, or was not made with clientv3.New")
	case key == "":
		return nil, errors.New("etcdfence: the fence's key is empty")
	}
	return &Fence{client, fencecheck.Place{Package: "etcdfence", Key: key, Digits: fencecheck.Padding}}, nil
}

// Key is the fence's key. Delete it when the guarded data are gone and no holder is left.
func (f *Fence) Key() string { return f.place.Key }

// Register makes token's holder the latest, in one transaction, and returns the guard for its writes. A holder registers before it reads. You may
// register a token again at any time while no greater one is registered.
//
// The error matches fence.ErrStale if a greater token is registered: its holder has the lock, or had it after this one.
func (f *Fence) Register(ctx context.Context, token lockport.Token) (*Guard, error) {
	return f.register(ctx, token, nil)
}

// RegisterLock is Register with the token of l, a lock on the same etcd. RegisterLock and every write also compare the lock's own key: the error
// matches lockport.ErrLost and fence.ErrStale once the lock is gone.
func (f *Fence) RegisterLock(ctx context.Context, l *lockport.Lock) (*Guard, error) {
	var key etcd.Key
	token, err := f.place.Holder(l, "etcd", &key)
	if err != nil {
		return nil, err
	}
	return f.register(ctx, token, &key)
}

func (f *Fence) register(ctx context.Context, token lockport.Token, lock *etcd.Key) (*Guard, error) {
	key := f.place.Key
	if err := fence.Check("", token, 0); err != nil {
		return nil, f.place.Explain("register", err)
	}
	g := &Guard{fence: f, token: token, lock: lock}
	put := []clientv3.Op{clientv3.OpPut(key, f.place.Format(token))}
	// A missing key fails every comparison of its value. The smallest text after a token's is that text with a zero byte appended.
	missing := append(g.held(), clientv3.Compare(clientv3.Version(key), "=", 0))
	atMost := append(g.held(), clientv3.Compare(clientv3.Value(key), ">", f.place.Format(0)),
		clientv3.Compare(clientv3.Value(key), "<", f.place.Format(token)+"\x00"))
	r, err := f.client.Txn(ctx).If(missing...).Then(put...).
		Else(clientv3.OpTxn(atMost, put, []clientv3.Op{clientv3.OpGet(key)})).Commit()
	if err != nil {
		return nil, g.explain("register", err)
	}
	if r.Succeeded {
		return g, nil
	}
	unless := nested(r)
	if unless.Succeeded {
		return g, nil
	}
	seen := value(unless)
	if n, ok := f.place.Parse(seen); seen == fencecheck.Missing || ok && n <= token { // the fence was in order, so the lock was gone
		return nil, f.place.Lost(lock.Key)
	}
	return nil, f.place.Refuse(token, seen)
}

// Guard writes for one holder, whose token is registered. Once a greater token is registered, its writes are refused with errors that match
// fence.ErrStale. Safe for concurrent use.
type Guard struct {
	fence *Fence
	token lockport.Token
	lock  *etcd.Key // also compared, unless nil
}

// Token is the holder's token.
func (g *Guard) Token() lockport.Token { return g.token }

// held returns the condition for the lock itself.
func (g *Guard) held() []clientv3.Cmp {
	if g.lock == nil {
		return nil
	}
	return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(g.lock.Key), "=", g.lock.CreateRevision)}
}

// Commit executes ops in one transaction. The response has theirs, in order.
func (g *Guard) Commit(ctx context.Context, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	return g.Txn(ctx).Then(ops...).Commit()
}

// Txn begins a transaction, used like clientv3's, that is executed only if the token is still the latest. The response is that of a transaction
// without a guard: Succeeded reports whether the conditions passed to If were met.
func (g *Guard) Txn(ctx context.Context) clientv3.Txn { return &txn{g: g, ctx: ctx} }

// txn is a clientv3.Txn. Commit nests it in a transaction with the guard's conditions.
type txn struct {
	g         *Guard
	ctx       context.Context
	cmps      []clientv3.Cmp
	then      []clientv3.Op
	otherwise []clientv3.Op
}

func (t *txn) If(cmps ...clientv3.Cmp) clientv3.Txn {
	t.cmps = append(t.cmps, cmps...)
	return t
}

func (t *txn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.then = append(t.then, ops...)
	return t
}

func (t *txn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.otherwise = append(t.otherwise, ops...)
	return t
}

func (t *txn) Commit() (*clientv3.TxnResponse, error) {
	g, then := t.g, t.then
	// Nest only if the caller has conditions: old versions of etcd do not check nested operations against the user's roles.
	nest := len(t.cmps) > 0
	if nest {
		then = []clientv3.Op{clientv3.OpTxn(t.cmps, t.then, t.otherwise)}
	}
	place := g.fence.place
	latest := append(g.held(), clientv3.Compare(clientv3.Value(place.Key), "=", place.Format(g.token)))
	r, err := g.fence.client.Txn(t.ctx).If(latest...).Then(then...).Else(clientv3.OpGet(place.Key)).Commit()
	switch {
	case err != nil:
		return nil, g.explain("write", err)
	case !r.Succeeded && value(r) == place.Format(g.token): // the fence was in order, so the lock was gone
		return nil, place.Lost(g.lock.Key)
	case !r.Succeeded:
		return nil, place.Refuse(g.token, value(r))
	case !nest:
		return r, nil
	}
	inner := nested(r)
	inner.Header = r.Header
	return inner, nil
}

// nested returns the response to the transaction that was the first operation of another.
func nested(r *clientv3.TxnResponse) *clientv3.TxnResponse {
	return (*clientv3.TxnResponse)(r.Responses[0].GetResponseTxn())
}

// value returns the fence's value from a transaction whose one operation read it.
func value(r *clientv3.TxnResponse) string {
	kvs := r.Responses[0].GetResponseRange().Kvs
	switch {
	case len(kvs) == 0:
		return fencecheck.Missing
	case len(kvs[0].Value) == 0: // something else
		return "empty"
	}
	return string(kvs[0].Value)
}

// explain wraps an error from clientv3. The outcome is unknown without an answer from etcd, and after an answer about time or resources: etcd
// gives it also for transactions that it still executes.
func (g *Guard) explain(did string, err error) error {
	var answer rpctypes.EtcdError
	switch {
	case !errors.As(err, &answer):
		err = fmt.Errorf("%w: no answer from etcd (is it running, and is the address right?): %w", driver.ErrUnknown, err)
	case slices.Contains([]codes.Code{codes.Unavailable, codes.ResourceExhausted, codes.DeadlineExceeded, codes.Canceled}, answer.Code()):
		err = fmt.Errorf("%w: %w", driver.ErrUnknown, err)
	}
	return g.fence.place.Explain(did, err)
}
