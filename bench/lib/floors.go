package lib

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"net/url"
	"sync"
	"time"

	_ "github.com/go-sql-driver/mysql"
	"github.com/go-zookeeper/zk"
	"github.com/jackc/pgx/v5/pgxpool"
	_ "github.com/jackc/pgx/v5/stdlib"
	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	goredis "github.com/redis/go-redis/v9"
	clientv3 "go.etcd.io/etcd/client/v3"
	recipe "go.etcd.io/etcd/client/v3/experimental/recipes"

	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/referee/libraries"
)

func openPings(_ context.Context, rawURL string, _ time.Duration) (library.Client, error) {
	all := libraries.GoRedis(rawURL)
	ping := func(ctx context.Context) error { return all[0].Ping(ctx).Err() }
	return library.Client{Close: all.Close, Take: func(ctx context.Context, _ library.Claim) (*library.Hold, error) { return held(ping, ping(ctx)) }}, nil
}

// bareValue is the value of all keys. A real lock would draw a random one, which costs only the client.
const bareValue = "0123456789abcdef0123456789abcdef"

// setNX is the bare claim.
func setNX(ctx context.Context, client *goredis.Client, c library.Claim) error {
	err := client.SetArgs(ctx, c.Name, bareValue, goredis.SetArgs{Mode: "NX", TTL: c.TTL}).Err()
	return libraries.HeldIf(errors.Is(err, goredis.Nil), err)
}

func openBareRedis(ctx context.Context, rawURL string, _ time.Duration) (library.Client, error) {
	all := libraries.GoRedis(rawURL)
	release := goredis.NewScript(`if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("DEL", KEYS[1]) end return 0`)
	return library.Client{Close: all.Close, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		return held(func(ctx context.Context) error {
			n, err := release.EvalSha(ctx, all[0], []string{c.Name}, bareValue).Int()
			return library.LostIf(err == nil && n == 0, err)
		}, setNX(ctx, all[0], c))
	}}, release.Load(ctx, all[0]).Err()
}

// openPublished opens the minimal way to wake a waiter in another process, which then takes the name. It serves one waiter.
func openPublished(_ context.Context, rawURL string, _ time.Duration) (library.Client, error) {
	all := libraries.GoRedis(rawURL)
	return library.Client{Close: all.Close, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		release := func(ctx context.Context) error {
			_, err := all[0].Pipelined(ctx, func(p goredis.Pipeliner) error {
				p.Del(ctx, c.Name)
				return p.Publish(ctx, "released:"+c.Name, "").Err()
			})
			return err
		}
		try := func() error { return setNX(ctx, all[0], c) }
		if err := try(); !c.Wait || !errors.Is(err, driver.ErrHeld) {
			return held(release, err)
		}
		subscription := all[0].Subscribe(ctx, "released:"+c.Name)
		defer func() { _ = subscription.Close() }()
		if _, err := subscription.Receive(ctx); err != nil { // confirms the subscription
			return nil, err
		}
		return held(release, claimed(true, try, func() error { _, err := subscription.ReceiveMessage(ctx); return err }))
	}}, nil
}

// openBareEtcd opens the floors. Waiters watch the key.
func openBareEtcd(_ context.Context, rawURL string, ttl time.Duration) (l library.Client, err error) {
	client, err := libraries.Etcd(rawURL)
	if err != nil {
		return l, err
	}
	s, err := libraries.EtcdSession(client, ttl)
	if err != nil {
		return l, err
	}
	return library.Client{Close: client.Close, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		key := "/bench/" + c.Name
		try := func() error {
			r, err := client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
				Then(clientv3.OpPut(key, "", clientv3.WithLease(s.Lease()))).Commit()
			return libraries.HeldIf(err == nil && !r.Succeeded, err)
		}
		release := func(ctx context.Context) error {
			r, err := client.Delete(ctx, key)
			return library.LostIf(err == nil && r.Deleted == 0, err)
		}
		return held(release, claimed(c.Wait, try, func() error { return awaitDelete(ctx, client, key) }))
	}}, nil
}

// awaitDelete returns when the key has been deleted.
func awaitDelete(ctx context.Context, client *clientv3.Client, key string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, err := client.Get(ctx, key)
	if err != nil || r.Count == 0 {
		return err
	}
	for seen := range client.Watch(ctx, key, clientv3.WithRev(r.Header.Revision+1), clientv3.WithFilterPut()) {
		if err := seen.Err(); err != nil || len(seen.Events) > 0 {
			return err
		}
	}
	return ctx.Err()
}

// openRWMutexes opens the recipe's readers, which support neither contexts nor single attempts. One session may hold many of them.
func openRWMutexes(_ context.Context, rawURL string, ttl time.Duration) (l library.Client, err error) {
	client, err := libraries.Etcd(rawURL)
	if err != nil {
		return l, err
	}
	s, err := libraries.EtcdSession(client, ttl)
	return library.Client{Close: client.Close, Take: func(_ context.Context, c library.Claim) (*library.Hold, error) {
		m := recipe.NewRWMutex(s, "/bench/"+c.Name)
		return held(func(context.Context) error { return m.RUnlock() }, m.RLock())
	}}, err
}

// openBareZK opens the floors. Waiters watch the node.
func openBareZK(ctx context.Context, rawURL string, ttl time.Duration) (l library.Client, err error) {
	conn, err := libraries.ZooKeeper(ctx, rawURL, ttl)
	if err != nil {
		return l, err
	}
	return library.Client{Close: func() error { conn.Close(); return nil }, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		path := "/bench-" + c.Name
		release := func(context.Context) error { return conn.Delete(path, -1) }
		try := func() error {
			_, err := conn.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
			return libraries.HeldIf(errors.Is(err, zk.ErrNodeExists), err)
		}
		return held(release, claimed(c.Wait, try, func() error { return awaitGone(ctx, conn, path) }))
	}}, nil
}

// awaitGone returns when the node has been deleted.
func awaitGone(ctx context.Context, conn *zk.Conn, path string) error {
	there, _, gone, err := conn.ExistsW(path)
	if err != nil || !there {
		return err
	}
	select {
	case seen := <-gone:
		return seen.Err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// most limits the connections of a floor, which needs one for each hold and each waiter. It is below the server's limit.
const most = 700

// onConnection takes a lock on its own connection. lock reports whether it was granted, unlock whether it was held. done returns the connection to
// its pool, which discards broken ones.
func onConnection(ctx context.Context, lock, unlock func(context.Context) (bool, error), done func()) (*library.Hold, error) {
	granted, err := lock(ctx)
	if err := libraries.HeldIf(err == nil && !granted, err); err != nil {
		done()
		return nil, err
	}
	return held(func(ctx context.Context) error {
		defer done()
		was, err := unlock(ctx)
		return library.LostIf(err == nil && !was, err)
	}, nil)
}

func openAdvisory(ctx context.Context, rawURL string, _ time.Duration) (l library.Client, err error) {
	pool, err := pgxpool.New(ctx, fmt.Sprint(rawURL, "?pool_max_conns=", most))
	if err != nil {
		return l, err
	}
	return library.Client{Close: func() error { pool.Close(); return nil }, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return nil, err
		}
		h := fnv.New64a()
		_, _ = h.Write([]byte(c.Name))
		ask := func(query string) func(context.Context) (bool, error) {
			return func(ctx context.Context) (yes bool, err error) {
				err = conn.QueryRow(ctx, query, int64(h.Sum64())).Scan(&yes)
				return yes, err
			}
		}
		query := libraries.Either(c.Wait, "SELECT true FROM pg_advisory_lock($1)", "SELECT pg_try_advisory_lock($1)")
		return onConnection(ctx, ask(query), ask("SELECT pg_advisory_unlock($1)"), conn.Release)
	}}, nil
}

// openRows opens locks that are a row for each name, through database/sql with prepared statements, pgx's default.
func openRows(ctx context.Context, rawURL string, _ time.Duration) (l library.Client, err error) {
	db, err := sql.Open("pgx", rawURL+"?sslmode=disable")
	if err != nil {
		return l, err
	}
	if _, err = db.ExecContext(ctx, "CREATE TABLE IF NOT EXISTS bare_locks (name text PRIMARY KEY, owner text NOT NULL, expires timestamptz NOT NULL)"); err != nil {
		return l, errors.Join(err, db.Close())
	}
	return library.Client{Close: db.Close, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		owner := rand.Text()
		ask := func(ctx context.Context, query string, args ...any) (bool, error) {
			result, err := db.ExecContext(ctx, query, args...)
			if err != nil {
				return false, err
			}
			n, err := result.RowsAffected()
			return n == 1, err
		}
		granted, err := ask(ctx, `INSERT INTO bare_locks AS l VALUES ($1, $2, clock_timestamp() + $3 * interval '1 millisecond') ON CONFLICT (name) DO UPDATE
			SET owner = excluded.owner, expires = excluded.expires WHERE l.owner = '' OR l.expires <= clock_timestamp()`, c.Name, owner, c.TTL.Milliseconds())
		return held(func(ctx context.Context) error {
			was, err := ask(ctx, "UPDATE bare_locks SET owner = '' WHERE name = $1 AND owner = $2", c.Name, owner)
			return library.LostIf(err == nil && !was, err)
		}, libraries.HeldIf(err == nil && !granted, err))
	}}, nil
}

func openNamed(_ context.Context, rawURL string, _ time.Duration) (l library.Client, err error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return l, err
	}
	// The client puts parameters into the text: preparing each statement would double the requests.
	db, err := sql.Open("mysql", u.User.String()+"@tcp("+u.Host+")"+u.Path+"?interpolateParams=true")
	if err != nil {
		return l, err
	}
	db.SetMaxIdleConns(most)
	return library.Client{Close: db.Close, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, err
		}
		ask := func(query string, args ...any) func(context.Context) (bool, error) {
			return func(ctx context.Context) (bool, error) {
				var yes sql.NullInt64
				err := conn.QueryRowContext(ctx, query, args...).Scan(&yes)
				return yes.Int64 == 1, err
			}
		}
		seconds := libraries.Either(c.Wait, 3600, 0) // practically forever
		return onConnection(ctx, ask("SELECT GET_LOCK(?, ?)", c.Name, seconds), ask("SELECT RELEASE_LOCK(?)", c.Name), func() { _ = conn.Close() })
	}}, nil
}

// openJetStream connects to a server.
func openJetStream(url string) (js jetstream.JetStream, end func() error, err error) {
	conn, err := natsgo.Connect(url)
	if err != nil {
		return nil, nil, err
	}
	js, err = jetstream.New(conn)
	return js, func() error { conn.Close(); return nil }, err
}

// openBareNATS opens the floor. It remembers the revision of its last marker of each name, so the next claim needs no read.
func openBareNATS(ctx context.Context, rawURL string, ttl time.Duration) (l library.Client, err error) {
	js, end, err := openJetStream(rawURL)
	if err != nil {
		return l, err
	}
	kv, err := js.KeyValue(ctx, "lockport")
	if err != nil {
		return l, errors.Join(err, end())
	}
	var markers sync.Map
	put := func(ctx context.Context, name, marker string, last uint64, ttl time.Duration) (uint64, error) {
		message := natsgo.NewMsg("$KV.lockport." + name)
		message.Header.Set("KV-Operation", marker)
		ack, err := js.PublishMsg(ctx, message, jetstream.WithExpectLastSequencePerSubject(last), jetstream.WithMsgTTL(ttl))
		if err != nil {
			return 0, err
		}
		return ack.Sequence, nil
	}
	return library.Client{Close: end, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		last, _ := markers.Load(c.Name)
		marker, _ := last.(uint64)
		revision, err := put(ctx, c.Name, "", marker, ttl)
		if _, refused := errors.AsType[*jetstream.APIError](err); refused { // another client has changed the key
			revision, err = kv.Create(ctx, c.Name, nil, jetstream.KeyTTL(ttl))
			err = libraries.HeldIf(errors.Is(err, jetstream.ErrKeyExists), err)
		}
		return held(func(ctx context.Context) error {
			marker, err := put(ctx, c.Name, "PURGE", revision, time.Minute)
			markers.Store(c.Name, marker)
			return err
		}, err)
	}}, nil
}
