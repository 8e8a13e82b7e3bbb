// Command etcd-late shows that a Session which hears nothing from etcd is done after another session has its lock: go run ./repro/etcd-late localhost:2379
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/lockport/lockport/referee/repro/stall"
)

func main() {
	through, silent := stall.Before(os.Args[1])
	first, second := lock(through), lock(os.Args[1])
	stall.Check(first.mutex.Lock(context.Background()))
	time.Sleep(3 * time.Second) // a few keep-alives
	silent.Store(true)
	stall.Check(second.mutex.Lock(context.Background()))
	began := time.Now()
	<-first.session.Done()
	fmt.Printf("second has had the lock for %v when first's Session is done\n", time.Since(began).Round(time.Millisecond))
}

type locker struct {
	session *concurrency.Session
	mutex   *concurrency.Mutex
}

func lock(addr string) locker {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}})
	stall.Check(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(2))
	stall.Check(err)
	return locker{session, concurrency.NewMutex(session, "/shown")}
}
