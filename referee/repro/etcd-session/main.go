// Command etcd-session shows that two Mutexes of one session hold the same lock at the same time: go run ./repro/etcd-session localhost:2379
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
	client, err := clientv3.New(clientv3.Config{Endpoints: os.Args[1:]})
	way.Check(err)
	session, err := concurrency.NewSession(client)
	way.Check(err)
	first, second := concurrency.NewMutex(session, "/session"), concurrency.NewMutex(session, "/session")
	way.Check(first.Lock(context.Background()))
	fmt.Println("first has the lock")
	way.Check(second.TryLock(context.Background()))
	fmt.Println("second has the lock, and nobody has released it")
	way.Check(session.Close())
}
