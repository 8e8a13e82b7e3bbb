package repro

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

// etcdSession opens a session with a TTL in seconds, on a client of its own.
func etcdSession(addr string, ttl int) *concurrency.Session {
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}})
	check(err)
	s, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
	check(err)
	return s
}

// etcdOneSession has two Mutexes of one session hold the same lock at the same time.
func etcdOneSession(addr string) {
	session := etcdSession(addr, 60)
	first, second := concurrency.NewMutex(session, "/session"), concurrency.NewMutex(session, "/session")
	check(first.Lock(context.Background()))
	fmt.Println("first has the lock")
	check(second.TryLock(context.Background()))
	fmt.Println("second has the lock, and nobody has released it")
	check(session.Close())
}

// etcdUnlock repeats an Unlock after a lost reply. It releases a lock that its session took meanwhile.
func etcdUnlock(addr string) {
	ctx, through := context.Background(), proxyTo(addr)
	one, other := etcdSession(through.Addr(), 60), etcdSession(addr, 60)
	first, second := concurrency.NewMutex(one, "/unlock"), concurrency.NewMutex(one, "/unlock")
	check(first.Lock(ctx))
	lose("/unlock/", through)
	fmt.Println("first's Unlock fails:", first.Unlock(ctx) != nil)
	check(second.Lock(ctx))
	fmt.Println("second has the lock; first's Unlock again:", first.Unlock(ctx))
	fmt.Println("TryLock of another session, before second's Unlock:", concurrency.NewMutex(other, "/unlock").TryLock(ctx))
}

// etcdOrphan calls Lock with a context that ends. It leaves its key until its session ends.
func etcdOrphan(addr string) {
	through := proxyTo(addr)
	first := concurrency.NewMutex(etcdSession(through.Addr(), 2), "/orphan")
	second := concurrency.NewMutex(etcdSession(addr, 2), "/orphan")
	through.BlackholeReplies()
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	fmt.Println("first's Lock:", first.Lock(ctx))
	through.Restore()
	time.Sleep(3 * 2 * time.Second) // three times the TTL
	fmt.Println("first's Unlock:", first.Unlock(context.Background()))
	fmt.Println("second's TryLock:", second.TryLock(context.Background()))
}

// etcdLate has a Session whose last keep-alive is answered late. It is done only after another session has its lock.
func etcdLate(addr string) {
	far := proxyTo(addr)
	near := proxyTo(far.Addr())
	first, second := etcdSession(near.Addr(), 5), etcdSession(addr, 5)
	check(concurrency.NewMutex(first, "/late").Lock(context.Background()))
	time.Sleep(time.Second) // wait for the first keep-alive and its reply
	far.Delay(100 * time.Millisecond)
	for n := far.Requests(); far.Requests() == n; time.Sleep(time.Millisecond) {
	}
	near.Freeze() // that keep-alive was the last one, and its reply stays here
	time.Sleep(2 * time.Second)
	far.Freeze()
	near.Restore() // the reply arrives late
	check(concurrency.NewMutex(second, "/late").Lock(context.Background()))
	began := time.Now()
	<-first.Done()
	fmt.Printf("second has had the lock for %v when first's Session is done\n", time.Since(began).Round(time.Millisecond))
}
