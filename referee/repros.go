package main

// Reproduction is a program in repro/ that shows one behaviour of a library, without lockport.
type Reproduction struct {
	Program     string // the program's folder
	Environment string // its servers, a name in package environment
	Shows       string
	Promised    string // quoted from the library's documentation
	Why         string // the library's code, or the issue, that explains it
	Prints      string // regular expression for its output
}

// Reproductions are all programs in repro/. A test runs each.
var Reproductions = []Reproduction{
	{
		"redislock-release", "redis",
		"redislock: if the reply to Release is lost, it has deleted the key but returns ErrLockNotHeld. redsync's Unlock does the same",
		`ErrLockNotHeld: "is returned when trying to release an inactive lock"`,
		"go-redis resends a command if its connection breaks (options.go: MaxRetries, 3 by default); redis/go-redis#2985",
		`Release: redislock: lock not held, keys that are left: 0`,
	},
	{
		"rueidislock-late", "redis",
		"rueidislock: if Redis falls silent, the holder's context ends only after another client has the lock",
		`README: "The returned ctx will be canceled automatically and immediately once the KeyMajority is not held anymore, for example: Redis are down"`,
		"lock.go, monitoring: an extension is sent half the validity after the previous one, but may take a whole one",
		`second has had the lock for [1-9][\d.]*m?s when first's context ends`,
	},
	{
		"rueidislock-outage", "redis",
		"rueidislock: WithContext, called while Redis is silent, keeps waiting for a free lock after Redis is back",
		`README: "The waiting Locker.WithContext will try acquiring the lock again automatically and immediately once it has been released"`,
		"lock.go, WithContext: after any failure it waits for an invalidation; the fork's issue is valkey-io/valkey-go#76",
		`WithContext returns: context deadline exceeded\nTryWithContext of the same locker: <nil>`,
	},
	{
		"etcd-session", "etcd-suite",
		"etcd: two Mutexes of one session hold the same name at the same time",
		`Mutex: "implements the sync Locker interface with etcd"`,
		"mutex.go, tryAcquire: the key consists of the name and the session's lease; etcd-io/etcd#5199, #11364",
		`second has the lock, and nobody has released it`,
	},
	{
		"etcd-unlock", "etcd-suite",
		"etcd: if Unlock is repeated because its reply was lost, it releases the lock of another Mutex of the session",
		`Mutex: "implements the sync Locker interface with etcd"`,
		"mutex.go, Unlock: it deletes the key without comparing its revision; etcd-io/etcd#22082",
		`Unlock fails: true\n.*Unlock again: <nil>\nTryLock of another session, before second's Unlock: <nil>`,
	},
	{
		"etcd-orphan", "etcd-suite",
		"etcd: if its context ends before the first reply, Lock leaves its key until the session ends",
		`Lock: "If the context is canceled while trying to acquire the lock, the mutex tries to clean its stale lock entry."`,
		"mutex.go, Lock: after an error of tryAcquire it skips the clean-up",
		`first's Lock: .*\nfirst's Unlock: mutex: lock has already been released\nsecond's TryLock: mutex: Locked by another session`,
	},
	{
		"etcd-late", "etcd-suite",
		"etcd: if its last keep-alive is answered late, a Session is done seconds after another client has the lock",
		`Session.Done: "closes when the lease is orphaned, expires, or is otherwise no longer being refreshed"`,
		"clientv3/lease.go, line 543: the deadline counts from the reply, and is checked once a second; etcd-io/etcd#10811",
		`second has had the lock for [1-9][\d.]*m?s when first's Session is done`,
	},
	{
		"zk-expired", "zookeeper-suite",
		"zk.Lock: after its session has expired and another client has the lock, Lock returns ErrDeadlock and Unlock always fails",
		`Unlock: "If the lock is not currently acquired by this Lock instance than ErrNotLocked is returned."`,
		"lock.go: only a successful delete clears lockPath; samuel/go-zookeeper#20",
		`second has the lock\nfirst's Unlock: zk: node does not exist\nfirst's Unlock again: zk: node does not exist\nfirst's Lock: zk: trying to acquire a lock twice`,
	},
}
