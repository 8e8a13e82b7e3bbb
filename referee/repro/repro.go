// Package repro reproduces behaviours of other lock libraries, which the referee found, without lockport. Each function prints what it sees. It leaves
// its clients open, so a process runs one.
package repro

import (
	"log"
	"strings"

	"github.com/lockport/lockport/conformance/faultproxy"
)

// Reproduction shows one behaviour of a library.
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
