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
