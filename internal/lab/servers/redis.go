package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	goredis "github.com/redis/go-redis/v9"
)

// RedisOptions are the options of a Redis. The zero value is a plain server without persistence.
type RedisOptions struct {
	// Password is the default user's password (requirepass). Empty: none.
	Password string
	// Users are ACL rules as in redis.conf, without the word "user": "alice on >secret ~lockport:* &* +@all". Do uses an internal user then.
	Users []string
	// TLS makes the server accept TLS only: see Server.TLSConfig.
	TLS bool
	// Clock gives the server a private clock, which JumpClock sets, where ClockInstalled says that this is possible.
	Clock bool
	// Config are more lines of redis.conf: "maxmemory 10mb". With "save 3600 1" Redis saves its data to disk, also at Stop. With
	// "appendonly yes" and "appendfsync always" it syncs every change to disk before it acknowledges it.
	Config []string

	// Sentinel makes the server a Sentinel, which Config configures.
	Sentinel bool

	port int // 0: a free one
}

// Redis is a Redis server. Safe for concurrent use.
type Redis struct {
	*Server
	options RedisOptions
}

// StartRedis starts a Redis.
func StartRedis(ctx context.Context, o RedisOptions) (*Redis, error) {
	k := kind{name: "redis-server", port: o.port, url: url.URL{Scheme: overTLS("redis", o.TLS)}, tls: o.TLS, clock: o.Clock}
	if o.Password != "" {
		k.url.User = url.UserPassword("", o.Password)
	}
	k.configure = func(_ context.Context, dir string, port int) ([]string, error) {
		args := []string{filepath.Join(dir, "redis.conf")}
		if o.Sentinel {
			args = append(args, "--sentinel")
		}
		return args, errors.Join(os.MkdirAll(dataDir(dir), 0o700), os.WriteFile(args[0], []byte(strings.Join(o.config(dir, port), "\n")+"\n"), 0o600))
	}
	k.ready = func(ctx context.Context, s *Server) error { _, err := (&Redis{s, o}).Do(ctx, "PING"); return err }
	s, err := start(ctx, k)
	return &Redis{s, o}, err
}

// login returns the user of Do and of replicas: the default user (no name), or an internal one if there are ACL rules.
func (o RedisOptions) login() (user, password string) {
	if len(o.Users) > 0 {
		return "lockport-servers", adminPassword()
	}
	return "", o.Password
}

func (o RedisOptions) config(dir string, port int) []string {
	lines := []string{
		"bind 127.0.0.1",
		`save ""`,
		"repl-diskless-sync-delay 0", // no delay before a replica syncs
	}
	set := func(name, value string) { lines = append(lines, name+" "+strconv.Quote(value)) }
	set("dir", dataDir(dir))
	if o.TLS {
		lines = append(lines, "port 0", fmt.Sprint("tls-port ", port), "tls-auth-clients no", "tls-replication yes")
		set("tls-cert-file", filepath.Join(dir, certFile))
		set("tls-ca-cert-file", filepath.Join(dir, certFile))
		set("tls-key-file", filepath.Join(dir, keyFile))
	} else {
		lines = append(lines, fmt.Sprint("port ", port))
	}
	user, password := o.login()
	set("requirepass", o.Password) // empty, here and below: none
	set("masteruser", user)
	set("masterauth", password)
	if len(o.Users) > 0 {
		lines = append(lines, "user "+user+" on >"+password+" ~* &* +@all")
	}
	for _, rule := range o.Users {
		lines = append(lines, "user "+rule)
	}
	return append(lines, o.Config...)
}

// Do sends one command, on a new connection, and returns the reply: a string, an int64, nil or a []any of these. ctx, and 5 s, bound it. An error
// reply is an error with the server's text.
func (r *Redis) Do(ctx context.Context, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	dial := new(net.Dialer).DialContext
	if r.tls {
		dial = (&tls.Dialer{Config: r.TLSConfig()}).DialContext
	}
	conn, err := dial(ctx, "tcp", r.Addr()) // dial here: go-redis prints dial errors
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	user, password := r.options.login()
	client := goredis.NewClient(&goredis.Options{
		Protocol: 2, DisableIdentity: true, PoolSize: 1, MaxRetries: -1, ContextTimeoutEnabled: true, Username: user, Password: password,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	})
	defer func() { _, _ = client.Close(), conn.Close() }()
	reply, err := client.Do(ctx, args...).Result()
	if err != nil && !errors.Is(err, goredis.Nil) {
		return nil, fmt.Errorf("redis %s: %v: %w", r.Addr(), args[0], errors.Join(context.Cause(ctx), err))
	}
	return reply, nil
}

// Info returns the fields of one section of INFO ("server", "replication").
func (r *Redis) Info(ctx context.Context, section string) (map[string]string, error) {
	reply, err := r.Do(ctx, "INFO", section)
	return fields(reply), err
}

// fields parses the lines "name:value" of INFO and CLUSTER INFO.
func fields(reply any) map[string]string {
	text, _ := reply.(string)
	found := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			found[name] = value
		}
	}
	return found
}

// StartReplica starts a replica of master, with master's options, and returns when it is in sync.
func StartReplica(ctx context.Context, master *Redis) (*Redis, error) {
	o := master.options
	o.port = 0
	r, err := StartRedis(ctx, o)
	if err != nil {
		return nil, err
	}
	if err := r.Follow(ctx, master, master.Addr()); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// Promote makes a replica a master, even if it has missed writes.
func (r *Redis) Promote(ctx context.Context) error {
	_, err := r.Do(ctx, "REPLICAOF", "NO", "ONE")
	return err
}

// Follow makes the server a replica of master, reached at the address via, and returns when it is in sync. Its previous data are lost.
func (r *Redis) Follow(ctx context.Context, master *Redis, via string) error {
	host, port, err := net.SplitHostPort(via)
	if err != nil {
		return err
	}
	if _, err := r.Do(ctx, "REPLICAOF", host, port); err != nil {
		return err
	}
	want := -1 // the offset that the replica must reach; -1: not known yet
	return Poll(ctx, func(ctx context.Context) error {
		info, err := r.Info(ctx, "replication")
		if err != nil || info["master_link_status"] != "up" {
			return errors.Join(err, fmt.Errorf("redis %s: link to the master is %q", r.Addr(), info["master_link_status"]))
		}
		if want < 0 {
			// Write something: after the initial copy, a master sends a new replica nothing until the replica has reported, but calls it online.
			_, err1 := master.Do(ctx, "PUBLISH", "lockport-servers", "sync")
			now, err2 := master.Info(ctx, "replication")
			if err := errors.Join(err1, err2); err != nil {
				return err
			}
			want, _ = strconv.Atoi(now["master_repl_offset"])
		}
		if got, _ := strconv.Atoi(info["slave_repl_offset"]); got < want {
			return fmt.Errorf("redis %s: has replicated %d of %d bytes", r.Addr(), got, want)
		}
		return nil
	})
}

const clusterMasters = 3

// StartVoters returns a function that starts n independent Redis, for Redlock.
func StartVoters(n int) func(context.Context, RedisOptions) (*Group[*Redis], error) {
	return func(ctx context.Context, o RedisOptions) (*Group[*Redis], error) {
		return startGroup(ctx, "redlock", n, false, func(ctx context.Context, s starting) (*Redis, error) {
			one := o
			one.port = s.ports[s.i]
			return StartRedis(ctx, one)
		})
	}
}

// StartCluster starts a Redis Cluster of three masters without replicas. It returns when every node reports the cluster as ready, which takes 2 s.
func StartCluster(ctx context.Context, o RedisOptions) (*Group[*Redis], error) {
	o.Config = append([]string{"cluster-enabled yes", "cluster-node-timeout 2000"}, o.Config...)
	c, err := StartVoters(clusterMasters)(ctx, o)
	if err != nil {
		return nil, err
	}
	c.scheme = "redis+cluster"
	err = runTool(ctx, "", "", "redis-cli", slices.Concat([]string{"--cluster", "create"}, c.Addrs(), []string{"--cluster-yes"})...)
	for _, node := range c.Nodes {
		if err == nil {
			err = node.servesCluster(ctx)
		}
		if err == nil { // 2 s is for the start: a busy machine may stop a node for longer
			_, err = node.Do(ctx, "CONFIG", "SET", "cluster-node-timeout", 15_000)
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// servesCluster waits until the node reports that the cluster serves.
func (r *Redis) servesCluster(ctx context.Context) error {
	return Poll(ctx, func(ctx context.Context) error {
		reply, err := r.Do(ctx, "CLUSTER", "INFO")
		if info := fields(reply); info["cluster_state"] != "ok" || info["cluster_known_nodes"] != fmt.Sprint(clusterMasters) {
			err = errors.Join(err, fmt.Errorf("redis %s: the cluster is incomplete: %v", r.Addr(), info))
		}
		return err
	})
}
