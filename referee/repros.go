package main

// Reproduction is a program of repro/ that shows one behaviour of a library, without lockport.
type Reproduction struct {
	Program     string // its folder
	Environment string // the servers that it needs, of package environment
	Shows       string
	Promised    string // by the words of the library's documentation; empty: it says nothing of it
	Why         string // the line of the library, or the issue, that explains it
	Prints      string // what it prints at least, as a regular expression
}

// Reproductions are all programs of repro/. A test runs each.
var Reproductions = []Reproduction{
	{
		"redislock-release", "redis",
		"redislock: Release deletes the key, and returns ErrLockNotHeld, where the reply to its request was lost. redsync's Unlock does the same",
		`ErrLockNotHeld: "is returned when trying to release an inactive lock"`,
		"go-redis sends a command again whose connection broke (options.go: MaxRetries, 3 by default); redis/go-redis#2985",
		`Release: redislock: lock not held, keys that are left: 0`,
	},
	{
		"redsync-taken", "redis",
		"redsync: TryLock returns ErrTaken although nobody else asked for the lock, where the reply to its request was lost",
		`ErrTaken: "happens when the lock is already taken in a quorum on nodes"`,
		"the same: the second SET NX finds the key of the first; redis/go-redis#2985",
		`the only TryLock: lock already taken, locked nodes: \[0\]\nthe next TryLock: <nil>`,
	},
	{
		"redsync-orphan", "redis",
		"redsync: TryLockContext, whose context ends before the reply, leaves the key for the whole expiry. The go-redis client has ContextTimeoutEnabled",
		"",
		"mutex.go, lockContext: the clean-up uses a context made from the one that ended",
		`(?s)TryLockContext: .*deadline exceeded.*somebody else's TryLock: lock already taken.*expires in 1m0s`,
	},
	{
		"redsync-silent-node", "redlock",
		"redsync: Extend waits for a silent server of five until the lock of the other four is over",
		"",
		"mutex.go, actOnPoolsAsync: it waits for every server unless WithFailFast is set, and ExtendContext and UnlockContext set no timeout; go-redsync/redsync#140",
		`Extend of a lock of 8s: false, redsync: failed to extend lock, after [12]\ds`,
	},
	{
		"rueidislock-late", "redis",
		"rueidislock: the context of a holder that hears nothing from Redis ends after another holder was granted the lock",
		`README: "The returned ctx will be canceled automatically and immediately once the KeyMajority is not held anymore, for example: Redis are down"`,
		"lock.go, monitoring: the request that extends the key has a deadline of a whole validity from when it is sent, which is half a validity after the last one",
		`second has had the lock for [1-9][\d.]*m?s when first's context ends`,
	},
	{
		"rueidislock-outage", "redis",
		"rueidislock: WithContext, called while Redis is silent, waits for a lock that nobody has, long after Redis is back",
		`README: "The waiting Locker.WithContext will try acquiring the lock again automatically and immediately once it has been released"`,
		"lock.go, WithContext: after a failed attempt it waits for an invalidation, whatever the failure was. The code of valkey-io/valkey-go#76 is the same",
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
		"etcd: Unlock, repeated because its reply was lost, ends the lock which another Mutex of the session took since. A third client is granted it",
		`Mutex: "implements the sync Locker interface with etcd"`,
		"mutex.go, Unlock: it deletes the key whatever its revision; etcd-io/etcd#22082",
		`Unlock fails: true\n.*Unlock again: <nil>\nTryLock of another session, before second's Unlock: <nil>`,
	},
	{
		"etcd-orphan", "etcd-suite",
		"etcd: Lock, whose context ends before the first reply, leaves its key for as long as the session lives. Unlock refuses to delete it",
		`Lock: "If the context is canceled while trying to acquire the lock, the mutex tries to clean its stale lock entry."`,
		"mutex.go, Lock: where tryAcquire returns an error the clean-up is not reached",
		`first's Lock: .*\nfirst's Unlock: mutex: lock has already been released\nsecond's TryLock: mutex: Locked by another session`,
	},
	{
		"etcd-late", "etcd-suite",
		"etcd: the Session of a holder, whose last keep-alive was answered late, is done seconds after another session was granted the lock",
		`Session.Done: "closes when the lease is orphaned, expires, or is otherwise no longer being refreshed"`,
		"clientv3/lease.go: the deadline counts from the reply to the last keep-alive, and is looked at once a second; etcd-io/etcd#10811",
		`second has had the lock for [1-9][\d.]*m?s when first's Session is done`,
	},
	{
		"zk-expired", "zookeeper-suite",
		"zk.Lock: after its session expired, and another holder was granted the lock, Lock says that this instance has it, and Unlock fails for ever",
		`Unlock: "If the lock is not currently acquired by this Lock instance than ErrNotLocked is returned."`,
		"lock.go: lockPath is cleared by a successful delete alone; samuel/go-zookeeper#20",
		`second has the lock\nfirst's Unlock: zk: node does not exist\nfirst's Unlock again: zk: node does not exist\nfirst's Lock: zk: trying to acquire a lock twice`,
	},
	{
		"zk-orphan", "zookeeper-suite",
		"zk.Lock: Lock fails as its connection breaks, and its node keeps everybody out for as long as the session lives. Unlock refuses to delete it",
		"",
		"lock.go, LockWithData: it returns the error of Children without deleting its node; samuel/go-zookeeper#229",
		`first's Lock: zk: connection closed\nfirst's Unlock: zk: not locked\nsecond's Lock waits`,
	},
	{
		"zk-socket", "zookeeper-suite",
		"zk.Conn: it does not close the socket on which it learns that its session expired, at Close neither",
		"",
		"conn.go, loop: the case of ErrSessionExpired does not close the connection, the case of other errors does",
		`a socket is open a second after Close`,
	},
	{
		"goose-told", "postgres",
		"goose's table lock: a holder whose lease passed to another is told at its Unlock. The default logger does not print the failed heartbeat",
		"",
		"lock/internal/table/locker.go, startHeartbeat: a failed heartbeat is logged as a warning, and the default logger prints errors alone",
		`first is told nothing until its Unlock: .*not held by this instance`,
	},
	{
		"goose-retries", "postgres",
		"goose's table lock: the retries of one Lock are missing at the next Lock of the same locker",
		`NewPostgresTableLocker: "Lock and Unlock both retry on failure."`,
		"lock/internal/table/locker.go, New: one retry.WithMaxRetries serves all calls, and it counts for as long as it lives (sethvargo/go-retry, backoff.go)",
		`first Lock.*fails: true, after more than 2s: true\n.*second Lock.*fails: true, after more than 2s: false`,
	},
}
