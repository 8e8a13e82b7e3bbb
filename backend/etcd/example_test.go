package etcd_test

import (
	"context"
	"log"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/etcd"
)

func Example() {
	ctx := context.Background()
	server, err := clientv3.New(clientv3.Config{Endpoints: []string{"localhost:2379"}})
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := etcd.New(server, etcd.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	lock, err := client.Acquire(ctx, "nightly-report")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	// Work, and stop when lock.Lost() is closed.
}

// A transaction on the same cluster compares the lock's key, and does nothing once the lock is lost.
func ExampleKey() {
	var ctx context.Context
	var server *clientv3.Client // the one passed to etcd.New
	var lock *lockport.Lock
	var k etcd.Key
	lock.As(&k)
	done, err := server.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(k.Key), "=", k.CreateRevision)).
		Then(clientv3.OpPut("balance-7", "90")).
		Commit()
	if err != nil || !done.Succeeded {
		log.Print(lockport.ErrLost, err)
	}
}
