package etcd

import (
	"context"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// request is a transaction about one name. A batch nests its requests in one transaction, each with its own comparisons. A batch has one
// request per name, since etcd evaluates all comparisons before any operation.
type request struct {
	name     string
	when     []clientv3.Cmp
	then, or []clientv3.Op
}

func (r request) op() clientv3.Op { return clientv3.OpTxn(r.when, r.then, r.or) }

// answer is the result of a request; err is classified.
type answer struct {
	txn *clientv3.TxnResponse
	err error
}

// write executes r, batched with other goroutines' requests. Its errors are classified.
func (b *Backend) write(ctx context.Context, r request) (*clientv3.TxnResponse, error) {
	a, sent, err := b.writes.Do(ctx, r)
	if err != nil {
		return nil, classify(ctx, err, sent)
	}
	return a.txn, a.err
}

// send executes the requests of a batch.
func (b *Backend) send(ctx context.Context, all []request) []answer {
	answers := make([]answer, len(all))
	var together request
	for _, r := range all {
		together.then = append(together.then, r.op())
	}
	a := b.commit(ctx, together)
	if a.err != nil && certain(a.err) { // perhaps one of them is to blame
		var each sync.WaitGroup
		for i, r := range all {
			each.Go(func() { answers[i] = b.commit(ctx, r) })
		}
		each.Wait()
		return answers
	}
	for i := range all {
		answers[i].err = a.err
		if a.err == nil {
			answers[i].txn = part(a.txn, i)
		}
	}
	return answers
}

// commit executes one transaction.
func (b *Backend) commit(ctx context.Context, r request) answer {
	txn, err := do(ctx, b, true, func(ctx context.Context, client *clientv3.Client) (*clientv3.TxnResponse, error) {
		return client.Txn(ctx).If(r.when...).Then(r.then...).Else(r.or...).Commit()
	})
	return answer{txn, err}
}

// part is the response of the nested transaction at operation i.
func part(r *clientv3.TxnResponse, i int) *clientv3.TxnResponse {
	p := (*clientv3.TxnResponse)(r.Responses[i].GetResponseTxn())
	p.Header = r.Header
	return p
}

// rangeAt is the response of the read at operation i.
func rangeAt(r *clientv3.TxnResponse, i int) *clientv3.GetResponse {
	return (*clientv3.GetResponse)(r.Responses[i].GetResponseRange())
}
