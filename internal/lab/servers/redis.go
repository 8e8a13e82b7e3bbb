package servers

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"
)

const redisInstall = "apt-get install redis-server (Debian), brew install redis (macOS)"

// RedisOptions are the options of a Redis. The zero value is a plain server without persistence.
type RedisOptions struct {
	// Password is the default user's (requirepass). Empty: none.
	Password string
	// Users are ACL rules as in redis.conf, without the word "user": "alice on >secret ~lockport:* &* +@all". They may switch
	// the default user off: Do then works all the same, through a user of its own.
	Users []string
	// TLS serves TLS and nothing else. The certificate, for 127.0.0.1 and localhost, is signed by an authority that
	// lives as long as this process: see Redis.TLSConfig and Redis.CAFile. Clients need no certificate.
	TLS bool
	// MaxMemory ("10mb") and MaxMemoryPolicy ("allkeys-lru") are Redis' own settings. Empty: no limit, noeviction.
	MaxMemory, MaxMemoryPolicy string
	// Save is when Redis saves its data to disk ("3600 1"), which Stop does too then. Empty: never.
	Save string
	// AppendOnly writes every change to disk before it is acknowledged.
	AppendOnly bool
	// Clock gives the server a clock of its own, which Redis.JumpClock sets. It needs gcc, and Linux: see ClockInstalled.
	Clock bool
	// Config are further lines of redis.conf: "notify-keyspace-events Ex".
	Config []string
	// Own makes NeedRedis start a server even where LOCKPORT_TEST_REDIS_URL names one. Tests set it that kill, stop,
	// freeze or restart the server, or change its settings.
	Own bool
}

// plain reports that any Redis would do.
func (o RedisOptions) plain() bool { return reflect.DeepEqual(o, RedisOptions{}) }

// Redis is a Redis server. Safe for concurrent use.
type Redis struct {
	*server
	options RedisOptions
	url     string // of the default user
	client  redisClient
}

// StartRedis starts a Redis, ready when it answers. ctx bounds the start alone. The caller must Close the server.
func StartRedis(ctx context.Context, o RedisOptions) (*Redis, error) {
	return startRedis(ctx, o, redisRole{}, freePort)
}

// redisRole is what a Redis is in a group of servers. The zero value: it stands alone.
type redisRole struct {
	config     []string // further lines of redis.conf
	args       []string // of the command line
	portOffset int
}

func startRedis(ctx context.Context, o RedisOptions, role redisRole, pick func(int) (int, error)) (*Redis, error) {
	path, err := find("redis-server", redisInstall)
	if err != nil {
		return nil, err
	}
	r := &Redis{options: o}
	r.client.user, r.client.password = o.login()
	if o.TLS {
		r.client.tls = clientTLS()
	}
	var env []string
	if o.Clock {
		env = clockEnv()
	}
	r.server, err = startServer(ctx, program{
		name:       "redis-server",
		path:       path,
		tls:        o.TLS,
		data:       []string{"appendonlydir", "dump.rdb"},
		env:        env,
		portOffset: role.portOffset,
		configure: func(dir string, port int) ([]string, error) {
			config := append(o.config(dir, port), role.config...)
			if o.Clock {
				if err := writeClock(dir); err != nil {
					return nil, err
				}
			}
			file := filepath.Join(dir, "redis.conf")
			args := append([]string{file}, role.args...)
			return args, os.WriteFile(file, []byte(strings.Join(config, "\n")+"\n"), 0o600)
		},
		ready: r.ready,
	}, pick)
	if err != nil {
		return nil, err
	}
	r.client.addr = r.Addr()
	r.url = r.UserURL("", o.Password)
	return r, nil
}

// ready asks the server for its process id too: the port may be another's.
func (r *Redis) ready(ctx context.Context, addr string, pid int) error {
	client := r.client
	client.addr = addr
	if _, err := client.do(ctx, "PING"); err != nil {
		return err
	}
	info, err := client.info(ctx, "server")
	if err != nil {
		return err
	}
	if got := info["process_id"]; got != strconv.Itoa(pid) {
		return fmt.Errorf("the Redis on %s is process %s, not ours", client.addr, got)
	}
	return nil
}

var adminPassword = sync.OnceValue(rand.Text)

// login is whom Do and replicas log in as: the default user (no name), or one of ours where there are ACL rules.
func (o RedisOptions) login() (user, password string) {
	if len(o.Users) > 0 {
		return "lockport-servers", adminPassword()
	}
	return "", o.Password
}

// config returns the lines of redis.conf.
func (o RedisOptions) config(dir string, port int) []string {
	lines := []string{
		"bind 127.0.0.1",
		"dir " + strconv.Quote(dir),
		"save " + strconv.Quote(o.Save),
		"repl-diskless-sync-delay 0", // a replica is in sync at once
	}
	if o.TLS {
		lines = append(lines, "port 0", fmt.Sprint("tls-port ", port), "tls-auth-clients no", "tls-replication yes",
			"tls-cert-file "+certFile, "tls-key-file "+keyFile, "tls-ca-cert-file "+caFile)
	} else {
		lines = append(lines, fmt.Sprint("port ", port))
	}
	set := func(name, value string) {
		if value != "" {
			lines = append(lines, name+" "+strconv.Quote(value))
		}
	}
	set("requirepass", o.Password)
	set("maxmemory", o.MaxMemory)
	set("maxmemory-policy", o.MaxMemoryPolicy)
	if o.AppendOnly {
		lines = append(lines, "appendonly yes", "appendfsync always")
	}
	user, password := o.login()
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

// URL is the server's, with the default user's password: "redis://:password@127.0.0.1:port", or "rediss://…" with TLS.
func (r *Redis) URL() string { return r.url }

// UserURL is URL with the name and password of an ACL user.
func (r *Redis) UserURL(user, password string) string {
	u := url.URL{Scheme: "redis", Host: r.Addr()}
	if r.client.tls != nil {
		u.Scheme = "rediss"
	}
	if user != "" || password != "" {
		u.User = url.UserPassword(user, password)
	}
	return u.String()
}

// Do sends one command, on a connection of its own, and returns the reply: a string, an int64, nil or a []any of these.
// Arguments are printed as fmt.Sprint does. ctx, and 5 s, bound it. An error reply is an error with the server's text.
func (r *Redis) Do(ctx context.Context, args ...any) (any, error) {
	return r.client.do(ctx, args...)
}

// JumpClock sets the time of day of a server with RedisOptions.Clock forward by d, or back by -d. Jumps add up, and outlive the
// server's process: expiries meet them at the next command, while Redis' own timers go by a clock that nobody sets.
func (r *Redis) JumpClock(d time.Duration) error {
	if err := r.control(); err != nil {
		return err
	}
	if !r.options.Clock {
		return errors.New("servers: this Redis has no clock of its own")
	}
	return jumpClock(r.dir, d)
}

// Info returns the fields of one section of INFO ("server", "replication").
func (r *Redis) Info(ctx context.Context, section string) (map[string]string, error) {
	return r.client.info(ctx, section)
}

// openRedis returns the Redis at rawURL, which somebody else runs.
func openRedis(ctx context.Context, rawURL string) (*Redis, error) {
	u, err := url.Parse(rawURL)
	if err != nil || (u.Scheme != "redis" && u.Scheme != "rediss") || u.Hostname() == "" || strings.Trim(u.Path, "/0") != "" {
		return nil, errors.New(redisURLVariable + `: want "redis://[user:password@]host[:port]" or "rediss://…", database 0`)
	}
	addr := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "6379"))
	r := &Redis{server: &server{program: program{name: "redis-server"}, addr: addr, foreign: true}, url: rawURL}
	r.client = redisClient{addr: addr, user: u.User.Username()}
	r.client.password, _ = u.User.Password()
	if u.Scheme == "rediss" {
		r.client.tls = &tls.Config{ServerName: u.Hostname()}
	}
	if _, err := r.Do(ctx, "PING"); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", redisURLVariable, u.Redacted(), err)
	}
	return r, nil
}

// waitInfo polls one section of INFO until it is as ok, which says what is missing, wants it.
func (r *Redis) waitInfo(ctx context.Context, section string, ok func(info map[string]string) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	return poll(ctx, func() error {
		info, err := r.Info(ctx, section)
		if err == nil {
			if err = ok(info); err != nil {
				err = fmt.Errorf("redis %s: %w", r.Addr(), err)
			}
		}
		return err
	})
}
