// Command etcd-late shows that a Session which hears nothing from etcd is done after another session has its lock: go run ./repro/etcd-late localhost:2379
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
	first, second := lock(through.Addr), lock(os.Args[1])
	way.Check(first.mutex.Lock(context.Background()))
	time.Sleep(3 * time.Second) // a few keep-alives
	through.Silence(true)
	way.Check(second.mutex.Lock(context.Background()))
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
	way.Check(err)
	session, err := concurrency.NewSession(client, concurrency.WithTTL(2))
	way.Check(err)
	return locker{session, concurrency.NewMutex(session, "/late")}
}
