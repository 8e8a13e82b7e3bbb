package main

// Reproduction is a program of repro/ that shows one behaviour of a library, without lockport.
type Reproduction struct {
	Program     string // its folder
	Environment string // the servers that it needs, of package environment
	Shows       string
	Promised    string // by the words of the library's documentation
	Why         string // the line of the library, or the issue, that explains it
	Prints      string // what it prints at least, as a regular expression
}

// Reproductions are all programs of repro/. A test runs each.
var Reproductions = []Reproduction{
	{
		"redislock-release", "redis",
		"redislock: Release, whose reply was lost, deletes the key and returns ErrLockNotHeld. redsync's Unlock does the same",
		`ErrLockNotHeld: "is returned when trying to release an inactive lock"`,
		"go-redis sends a command again whose connection broke (options.go: MaxRetries, 3 by default); redis/go-redis#2985",
		`Release: redislock: lock not held, keys that are left: 0`,
	},
	{
		"rueidislock-late", "redis",
		"rueidislock: the context of a holder that Redis does not answer ends after another has the lock",
		`README: "The returned ctx will be canceled automatically and immediately once the KeyMajority is not held anymore, for example: Redis are down"`,
		"lock.go, monitoring: each extension is sent half a validity after the last, with a deadline of a whole one",
		`second has had the lock for [1-9][\d.]*m?s when first's context ends`,
	},
	{
		"rueidislock-outage", "redis",
		"rueidislock: WithContext, called while Redis is silent, waits for a free lock after Redis is back",
		`README: "The waiting Locker.WithContext will try acquiring the lock again automatically and immediately once it has been released"`,
		"lock.go, WithContext: after any failure it waits for an invalidation; the fork's issue is valkey-io/valkey-go#76",
		`WithContext returns: context deadline exceeded\nTryWithContext of the same locker: <nil>`,
	},
	{
		"etcd-session", "etcd-suite",
		"etcd: two Mutexes of one session hold the same name at once",
		`Mutex: "implements the sync Locker interface with etcd"`,
		"mutex.go, tryAcquire: the key is the name and the session's lease; etcd-io/etcd#5199, #11364",
		`second has the lock, and nobody has released it`,
	},
	{
		"etcd-unlock", "etcd-suite",
		"etcd: Unlock, repeated because its reply was lost, ends the lock that another Mutex of the session has taken since",
		`Mutex: "implements the sync Locker interface with etcd"`,
		"mutex.go, Unlock: it deletes the key whatever its revision; etcd-io/etcd#22082",
		`Unlock fails: true\n.*Unlock again: <nil>\nTryLock of another session, before second's Unlock: <nil>`,
	},
	{
		"etcd-orphan", "etcd-suite",
		"etcd: Lock, whose context ends before the first reply, leaves its key while the session lives",
		`Lock: "If the context is canceled while trying to acquire the lock, the mutex tries to clean its stale lock entry."`,
		"mutex.go, Lock: an error of tryAcquire passes the clean-up by",
		`first's Lock: .*\nfirst's Unlock: mutex: lock has already been released\nsecond's TryLock: mutex: Locked by another session`,
	},
	{
		"etcd-late", "etcd-suite",
		"etcd: a Session, whose last keep-alive was answered late, is done seconds after another has the lock",
		`Session.Done: "closes when the lease is orphaned, expires, or is otherwise no longer being refreshed"`,
		"clientv3/lease.go, line 543: the deadline counts from the reply, and is checked once a second; etcd-io/etcd#10811",
		`second has had the lock for [1-9][\d.]*m?s when first's Session is done`,
	},
	{
		"zk-expired", "zookeeper-suite",
		"zk.Lock: its session expired, and another has the lock: Lock returns ErrDeadlock, and Unlock fails for ever",
		`Unlock: "If the lock is not currently acquired by this Lock instance than ErrNotLocked is returned."`,
		"lock.go: lockPath is cleared by a successful delete alone; samuel/go-zookeeper#20",
		`second has the lock\nfirst's Unlock: zk: node does not exist\nfirst's Unlock again: zk: node does not exist\nfirst's Lock: zk: trying to acquire a lock twice`,
	},
}
