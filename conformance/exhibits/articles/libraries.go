package articles

import (
	"context"
	"fmt"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

var libraries = []Exhibit{
	{
		Name: "mutexes-share-a-session", Library: "clientv3/concurrency", Article: "https://github.com/etcd-io/etcd/pull/11364", Server: Etcd,
		Is:       "two Mutexes on one session share a key: both hold",
		CaughtBy: []string{"exclusion/two-claims"}, Sees: []string{"another claim was granted"},
		open: onEtcd(true), sound: onEtcd(false),
	},
	{
		Name: "stale-unlock", Library: "clientv3/concurrency", Article: "https://github.com/etcd-io/etcd/issues/22082", Server: Etcd,
		Is:       "Unlock, repeated after a lost reply, deletes what the same session has locked since",
		CaughtBy: []string{"unknown/release-reply-lost-same-client"}, Sees: []string{releasedAnother},
		open: onEtcd(true), sound: onEtcd(false),
	},
	{
		Name: "orphan-after-connection-loss", Library: "go-zookeeper", Article: "https://github.com/samuel/go-zookeeper/issues/229", Server: ZooKeeper,
		Is:       "when the connection is lost, Lock returns without its node, and Unlock reports that nothing is locked",
		CaughtBy: []string{"unknown/cut-after-each-request"}, Sees: []string{"cut off after request"},
		open: onZooKeeper(true), sound: onZooKeeper(false),
	},
	{
		Name: "unlocks-on-another-connection", Library: "frontier", Article: "https://github.com/raystack/frontier/pull/1918", Server: Postgres,
		Is:       "the unlock uses any free connection of the pool, and ignores that it released nothing",
		CaughtBy: []string{"contract/release"}, Sees: []string{"nobody has the name, yet a claim was not granted"},
		open: onPool, sound: onPostgres,
	},
	{
		Name: "one-connection-gets-it-twice", Library: "mysqljs", Article: "https://github.com/mysqljs/mysql/issues/2511", Server: MySQL,
		Is:       "two claims share a connection, on which GET_LOCK succeeds every time",
		CaughtBy: []string{"exclusion/two-claims"}, Sees: []string{"another claim was granted"},
		open: onMySQL(true), sound: onMySQL(false),
	},
	{
		Name: "cleans-up-on-the-callers-context", Library: "blnk", Article: "https://github.com/blnkfinance/blnk/issues/354",
		Is:       "the key is deleted on the context of the request that took it, and stays if that has ended",
		CaughtBy: []string{"cancellation/after-each-request"}, Sees: []string{"must be granted"},
		spoil: func(l *lock) {
			take := l.take
			l.take = func(ctx context.Context, c *claim) (bool, error) {
				got, err := take(context.WithoutCancel(ctx), c)
				if got && ctx.Err() != nil {
					_, _ = l.release(ctx, c)
					return false, fmt.Errorf("%w: %w", driver.ErrUnavailable, ctx.Err())
				}
				return got, err
			}
		},
	},
	{
		Name: "extend-resurrects", Library: "redlock-rb", Article: "https://github.com/leandromoreira/redlock-rb/issues/36",
		Is:       "extending a lost lock takes it again, and its holder never learns that it was free",
		CaughtBy: []string{"loss/forgotten"}, Sees: []string{"Lost is not closed"},
		spoil: func(l *lock) {
			renew := l.renew
			l.renew = func(ctx context.Context, c *claim) (bool, error) {
				ours, err := renew(ctx, c)
				if err == nil && !ours {
					return l.take(ctx, c)
				}
				return ours, err
			}
		},
	},
	{
		Name: "retried-set-nx", Library: "go-redis", Article: "https://github.com/redis/go-redis/issues/2985",
		Is:       "the client library repeats a SET NX whose reply was lost, and takes its own lock for another client's",
		CaughtBy: []string{"unknown/acquire-reply-lost"}, Sees: []string{"the reply to a claim was lost, so its outcome is unknown"},
		client: func(o *goredis.Options) { o.MaxRetries = 3 }, // the library's default
	},
}
