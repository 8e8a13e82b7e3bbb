// Command etcd-unlock shows that an Unlock repeated after a lost reply releases a lock its session took meanwhile: go run ./repro/etcd-unlock localhost:2379
package main

import (
	"context"
	"fmt"
	"os"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/lockport/lockport/referee/repro/way"
)

func main() {
	ctx, through := context.Background(), way.To(os.Args[1])
	one, other := session(through.Addr()), session(os.Args[1])
	first, second := concurrency.NewMutex(one, "/unlock"), concurrency.NewMutex(one, "/unlock")
	way.Check(first.Lock(ctx))
	through.Lose("/unlock/")
	fmt.Println("first's Unlock fails:", first.Unlock(ctx) != nil)
	way.Check(second.Lock(ctx))
	fmt.Println("second has the lock; first's Unlock again:", first.Unlock(ctx))
	fmt.Println("TryLock of another session, before second's Unlock:", concurrency.NewMutex(other, "/unlock").TryLock(ctx))
}

func session(addr string) *concurrency.Session {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}})
	way.Check(err)
	s, err := concurrency.NewSession(client)
	way.Check(err)
	return s
}
