package etcdfence

import (
	"context"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/etcd"
	"github.com/lockport/lockport/internal/fencecheck"
)

// Guard writes for one holder, whose token is registered. Its writes are refused, with errors that match fence.ErrStale, from the moment at which a
// greater token is registered. Safe for concurrent use.
type Guard struct {
	fence *Fence
	token lockport.Token
	lock  *etcd.Key // compared too; nil: not
}

// Token is the holder's.
func (g *Guard) Token() lockport.Token { return g.token }

// Cmps are the conditions under which the holder may write, for a transaction of the caller's own: that the fence has its token and, after
// RegisterLock, that the lock's key is there. That such a transaction did not succeed may have other reasons: Txn tells them apart.
func (g *Guard) Cmps() []clientv3.Cmp {
	return append(g.held(), clientv3.Compare(clientv3.Value(g.fence.key), "=", format(g.token)))
}

// held are the conditions for the lock itself.
func (g *Guard) held() []clientv3.Cmp {
	if g.lock == nil {
		return nil
	}
	return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(g.lock.Key), "=", g.lock.CreateRevision)}
}

// Commit carries out ops in one transaction. Its answer has theirs, in order.
func (g *Guard) Commit(ctx context.Context, ops ...clientv3.Op) (*clientv3.TxnResponse, error) {
	return g.Txn(ctx).Then(ops...).Commit()
}

// Txn begins a transaction, used as that of clientv3, which is carried out if the token is still the latest. Its answer is that of a transaction
// without a guard: Succeeded says whether the conditions that were given to its If were met.
func (g *Guard) Txn(ctx context.Context) clientv3.Txn { return &txn{g: g, ctx: ctx} }

// txn puts a transaction inside of one that has the guard's conditions.
type txn struct {
	g         *Guard
	ctx       context.Context
	cmps      []clientv3.Cmp
	then      []clientv3.Op
	otherwise []clientv3.Op
}

// If implements clientv3.Txn.
func (t *txn) If(cmps ...clientv3.Cmp) clientv3.Txn {
	t.cmps = append(t.cmps, cmps...)
	return t
}

// Then implements clientv3.Txn.
func (t *txn) Then(ops ...clientv3.Op) clientv3.Txn {
	t.then = append(t.then, ops...)
	return t
}

// Else implements clientv3.Txn.
func (t *txn) Else(ops ...clientv3.Op) clientv3.Txn {
	t.otherwise = append(t.otherwise, ops...)
	return t
}

// Commit implements clientv3.Txn.
func (t *txn) Commit() (*clientv3.TxnResponse, error) {
	g := t.g
	then := t.then
	// Without conditions of the caller's nothing needs to be nested, which old versions of etcd do not check against the user's roles.
	nest := len(t.cmps) > 0
	if nest {
		then = []clientv3.Op{clientv3.OpTxn(t.cmps, t.then, t.otherwise)}
	}
	r, err := g.fence.client.Txn(t.ctx).If(g.Cmps()...).Then(then...).Else(clientv3.OpGet(g.fence.key)).Commit()
	switch {
	case err != nil:
		return nil, g.explain("write", err)
	case !r.Succeeded:
		seen := value(r)
		if seen == format(g.token) { // as it should be, so it was the lock
			return nil, g.lost()
		}
		return nil, g.refused(seen)
	case !nest:
		return r, nil
	}
	inner := nested(r, 0)
	inner.Header = r.Header
	return inner, nil
}

// nested is the answer to a transaction that was operation i of another.
func nested(r *clientv3.TxnResponse, i int) *clientv3.TxnResponse {
	if i < len(r.Responses) {
		if inner := r.Responses[i].GetResponseTxn(); inner != nil {
			return (*clientv3.TxnResponse)(inner)
		}
	}
	return (*clientv3.TxnResponse)(&pb.TxnResponse{})
}

// value is the value of the fence that a transaction read: that of a token, fencecheck.Missing, or noToken.
func value(r *clientv3.TxnResponse) string {
	if len(r.Responses) == 0 {
		return fencecheck.Missing
	}
	kvs := r.Responses[0].GetResponseRange().GetKvs()
	if len(kvs) == 0 {
		return fencecheck.Missing
	}
	if _, ok := parse(string(kvs[0].Value)); !ok {
		return noToken
	}
	return string(kvs[0].Value)
}

// noToken is what a key has that is no fence.
const noToken = "no token"
