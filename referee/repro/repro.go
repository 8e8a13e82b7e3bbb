// Package repro reproduces behaviors of other lock libraries, which the referee found, without lockport. Each function prints what it sees. It leaves
// its clients open, so a process runs one.
package repro

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-zookeeper/zk"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/lockport/lockport/conformance/faultproxy"
)

// Reproduction shows one behavior of a library.
type Reproduction struct {
	Name        string
	Run         func(addr string) // with the address of a server; ends the process on an error
	Environment string            // its servers, a name in package environment
	Shows       string
	Why         string // the library's code, or the issue, that explains it
	Prints      string // regular expression for its output
}

// All are all reproductions. A test runs each.
var All = []Reproduction{
	{
		"redislock-release", redislockRelease, "redis",
		"redislock: if the reply to Release is lost, it has deleted the key but returns ErrLockNotHeld. redsync's Unlock does the same",
		"go-redis resends a command if its connection breaks (options.go: MaxRetries, 3 by default); redis/go-redis#2985",
		`Release: redislock: lock not held, keys that are left: 0`,
	},
	{
		"rueidislock-late", rueidislockLate, "redis",
		"rueidislock: if Redis falls silent, the holder's context ends only after another client has the lock",
		"lock.go, monitoring: an extension is sent half the validity after the previous one, but may take a whole one",
		`second has had the lock for [1-9][\d.]*m?s when first's context ends`,
	},
	{
		"rueidislock-outage", rueidislockOutage, "redis",
		"rueidislock: WithContext, called while Redis is silent, keeps waiting for a free lock after Redis is back",
		"lock.go, WithContext: after any failure it waits for an invalidation; the fork's issue is valkey-io/valkey-go#76",
		`WithContext returns: context deadline exceeded\nTryWithContext of the same locker: <nil>`,
	},
	{
		"etcd-session", etcdOneSession, "etcd-suite",
		"etcd: two Mutexes of one session hold the same name at the same time",
		"mutex.go, tryAcquire: the key consists of the name and the session's lease; etcd-io/etcd#5199, #11364",
		`second has the lock, and nobody has released it`,
	},
	{
		"etcd-unlock", etcdUnlock, "etcd-suite",
		"etcd: if Unlock is repeated because its reply was lost, it releases the lock of another Mutex of the session",
		"mutex.go, Unlock: it deletes the key without comparing its revision; etcd-io/etcd#22082",
		`Unlock fails: true\n.*Unlock again: <nil>\nTryLock of another session, before second's Unlock: <nil>`,
	},
	{
		"etcd-orphan", etcdOrphan, "etcd-suite",
		"etcd: if its context ends before the first reply, Lock leaves its key until the session ends",
		"mutex.go, Lock: after an error of tryAcquire it skips the clean-up",
		`first's Lock: .*\nfirst's Unlock: mutex: lock has already been released\nsecond's TryLock: mutex: Locked by another session`,
	},
	{
		"etcd-late", etcdLate, "etcd-suite",
		"etcd: if its last keep-alive is answered late, a Session is done seconds after another client has the lock",
		"clientv3/lease.go, line 543: the deadline counts from the reply, and is checked once a second; etcd-io/etcd#10811",
		`second has had the lock for [1-9][\d.]*m?s when first's Session is done`,
	},
	{
		"zk-expired", zkExpired, "zookeeper-suite",
		"zk.Lock: after its session has expired and another client has the lock, Lock returns ErrDeadlock and Unlock always fails",
		"lock.go: only a successful delete clears lockPath; samuel/go-zookeeper#20. Unlock documents ErrNotLocked",
		`second has the lock\nfirst's Unlock: zk: node does not exist\nfirst's Unlock again: zk: node does not exist\nfirst's Lock: zk: trying to acquire a lock twice`,
	},
}

func proxyTo(addr string) *faultproxy.Proxy {
	p, err := faultproxy.New(addr)
	check(err)
	return p
}

// lose drops the reply to the next request that contains text, and closes its connection. The server executes the request.
func lose(text string, p *faultproxy.Proxy) {
	p.DropReply(func(request []byte) bool { return strings.Contains(string(request), text) })
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// redislockRelease loses the reply to a Release. It deletes the lock's key and returns ErrLockNotHeld.
func redislockRelease(addr string) {
	ctx, through := context.Background(), proxyTo(addr)
	client := redis.NewClient(&redis.Options{Addr: through.Addr()})
	for _, lost := range []bool{false, true} { // the first time loads the scripts
		lock, err := redislock.Obtain(ctx, client, "redislock-release", time.Minute, nil)
		check(err)
		if lost {
			lose("evalsha", through)
		}
		err = lock.Release(ctx)
		keys := client.Exists(ctx, "redislock-release").Val()
		fmt.Printf("Release: %v, keys that are left: %d\n", err, keys)
	}
}

// rueidisLocker opens a locker. tryNext 0 is the default, 20 ms.
func rueidisLocker(addr string, tryNext time.Duration) rueidislock.Locker {
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{addr}}, KeyMajority: 1, NoLoopTracking: true, KeyValidity: 2 * time.Second, TryNextAfter: tryNext,
	})
	check(err)
	return l
}

// rueidislockLate has a holder without replies from Redis. It learns of its loss after another client has the lock.
func rueidislockLate(addr string) {
	through := proxyTo(addr)
	first, _, err := rueidisLocker(through.Addr(), time.Second).WithContext(context.Background(), "late")
	check(err)
	through.Freeze()
	_, _, err = rueidisLocker(addr, time.Second).WithContext(context.Background(), "late")
	check(err)
	began := time.Now()
	<-first.Done()
	fmt.Printf("second has had the lock for %v when first's context ends\n", time.Since(began).Round(time.Millisecond))
}

// rueidislockOutage calls WithContext in an outage. It keeps waiting for a lock that is free.
func rueidislockOutage(addr string) {
	through := proxyTo(addr)
	locker := rueidisLocker(through.Addr(), 0)
	through.Freeze()
	time.AfterFunc(time.Second, through.Restore)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, _, err := locker.WithContext(ctx, "outage")
	fmt.Println("9s after the outage WithContext returns:", err)
	_, _, err = locker.TryWithContext(context.Background(), "outage")
	fmt.Println("TryWithContext of the same locker:", err)
}

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

// zkExpired has a Lock whose session expired. It can be neither locked nor unlocked, while another has the lock.
func zkExpired(addr string) {
	lock := func(addr string) (*zk.Conn, *zk.Lock) {
		conn, _, err := zk.Connect([]string{addr}, 2*time.Second, zk.WithLogInfo(false))
		check(err)
		return conn, zk.NewLock(conn, "/expired", zk.WorldACL(zk.PermAll))
	}
	through := proxyTo(addr)
	conn, first := lock(through.Addr())
	_, second := lock(addr)
	check(first.Lock())
	through.Freeze()
	check(second.Lock())
	fmt.Println("second has the lock")
	through.Restore()
	for conn.State() != zk.StateHasSession {
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println("first's Unlock:", first.Unlock())
	fmt.Println("first's Unlock again:", first.Unlock())
	fmt.Println("first's Lock:", first.Lock())
}
