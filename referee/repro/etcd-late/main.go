// Command etcd-late shows a Session whose last keep-alive is answered late: it is done only after another session has its lock: go run ./repro/etcd-late localhost:2379
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
	far := way.To(os.Args[1])
	near := way.To(far.Addr())
	first, second := session(near.Addr()), session(os.Args[1])
	way.Check(concurrency.NewMutex(first, "/late").Lock(context.Background()))
	time.Sleep(time.Second) // wait for the first keep-alive and its reply
	far.Delay(100 * time.Millisecond)
	far.AwaitRequest()
	near.Freeze() // that keep-alive was the last one, and its reply stays here
	time.Sleep(2 * time.Second)
	far.Freeze()
	near.Restore() // the reply arrives late
	way.Check(concurrency.NewMutex(second, "/late").Lock(context.Background()))
	began := time.Now()
	<-first.Done()
	fmt.Printf("second has had the lock for %v when first's Session is done\n", time.Since(began).Round(time.Millisecond))
}

func session(addr string) *concurrency.Session {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}})
	way.Check(err)
	s, err := concurrency.NewSession(client, concurrency.WithTTL(5))
	way.Check(err)
	return s
}
