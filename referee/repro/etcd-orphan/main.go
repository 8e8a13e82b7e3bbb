// Command etcd-orphan shows that a Lock whose context ends leaves its key until its session ends: go run ./repro/etcd-orphan localhost:2379
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/lockport/lockport/referee/repro/way"
)

func main() {
	through := way.To(os.Args[1])
	first, second := mutex(through.Addr()), mutex(os.Args[1])
	through.BlackholeReplies()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	fmt.Println("first's Lock:", first.Lock(ctx))
	through.Restore()
	time.Sleep(3 * 2 * time.Second) // three times the TTL
	fmt.Println("first's Unlock:", first.Unlock(context.Background()))
	fmt.Println("second's TryLock:", second.TryLock(context.Background()))
}

func mutex(addr string) *concurrency.Mutex {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}})
	way.Check(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(2))
	way.Check(err)
	return concurrency.NewMutex(session, "/orphan")
}
