package etcdfence_test

import (
	"context"
	"errors"
	"log"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
	"github.com/lockport/lockport/fence/etcdfence"
)

func Example() {
	var ctx context.Context
	var server *clientv3.Client
	var locks *lockport.Client // from etcd.New, on the same cluster
	config, err := etcdfence.New(server, "fence/config")
	if err != nil {
		log.Fatal(err)
	}

	err = lockport.Do(ctx, locks, "config", func(ctx context.Context, l *lockport.Lock) error {
		guard, err := config.RegisterLock(ctx, l) // before any read
		if err != nil {
			return err
		}
		old, err := server.Get(ctx, "config/servers")
		if err != nil {
			return err
		}
		servers := "a"
		if len(old.Kvs) > 0 {
			servers = string(old.Kvs[0].Value) + ",a"
		}
		_, err = guard.Commit(ctx, clientv3.OpPut("config/servers", servers), clientv3.OpPut("config/changed-by", l.Owner()))
		return err
	})
	if errors.Is(err, fence.ErrStale) {
		log.Print("a newer holder has the configuration: nothing was written")
	}
}

// A transaction with its own conditions, nested in one with the guard's.
func ExampleGuard_Txn() {
	var ctx context.Context
	var config *etcdfence.Fence // from etcdfence.New
	var token lockport.Token    // of a lock on any backend
	guard, err := config.Register(ctx, token)
	if err != nil {
		log.Fatal(err)
	}
	r, err := guard.Txn(ctx).
		If(clientv3.Compare(clientv3.Value("config/state"), "=", "draft")).
		Then(clientv3.OpPut("config/state", "live")).
		Else(clientv3.OpGet("config/state")).
		Commit()
	switch {
	case errors.Is(err, fence.ErrStale):
		log.Print("a newer holder has the configuration: nothing was written")
	case err == nil && !r.Succeeded:
		log.Print("it is not a draft")
	}
}
