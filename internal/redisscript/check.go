package redisscript

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/notice"
)

// Remedies are what a backend's users should do about a server.
type Remedies struct {
	Restart string // that can forget locks when it restarts
	Replica string // that is a replica
	Cluster string // that is a node of a Cluster; "": nothing
}

// CheckServer adds notices about a server's settings and clock. It refuses servers whose locks another server grants too. It returns the server's
// INFO, or nil if that is not permitted.
func CheckServer(ctx context.Context, node goredis.Cmdable, r Remedies, all *notice.List) (info map[string]string, err error) {
	sent := time.Now()
	text, err := node.Info(ctx).Result()
	if goredis.IsPermissionError(err) || goredis.HasErrorPrefix(err, "unknown command") { // go-redis strips the ERR
		all.Add(driver.Notice{ID: "info", Unknown: true,
			Text:   "The server does not permit INFO, so its version, role, eviction policy, replicas, persistence and clock are not known.",
			Remedy: "Allow it (+info), or check them yourself."})
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	info = make(map[string]string)
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[key] = value
		}
	}
	if us, err := strconv.ParseInt(info["server_time_usec"], 10, 64); err == nil {
		all.Add(notice.Clock(notice.ClockOffset(sent, time.UnixMicro(us), time.Now()))...)
	}
	switch policy, limit := info["maxmemory_policy"], info["maxmemory"]; {
	case policy == "":
		all.Add(driver.Notice{ID: "eviction-policy", Unknown: true,
			Text:   "The server does not say what it does when its memory is full; if it evicts keys, it can forget held locks.",
			Remedy: "Make sure that its maxmemory-policy is noeviction."})
	case policy != "noeviction" && limit != "0":
		all.Add(driver.Notice{ID: "eviction-policy",
			Text:   fmt.Sprintf("The eviction policy is %s: when its memory is full, the server can forget held locks.", policy),
			Remedy: "Set maxmemory-policy noeviction, or use a separate server for locks."})
	}
	if info["aof_enabled"] != "1" {
		all.Add(driver.Notice{ID: "persistence", Unknown: info["aof_enabled"] == "",
			Text:   "Without the append-only file (appendonly yes) the server can forget locks when it restarts, even held ones.",
			Remedy: r.Restart})
	}
	return info, role(info, r)
}

// CheckName returns a name that nobody uses, for a script that tries something.
func CheckName() string { return "lockport-check-" + rand.Text() }

// Spread refuses a proxy that distributes keys over several servers: it finds all keys of a request on the server of the first. So a batch of claims
// would not exclude other claims of the same names.
func (p *Pipe) Spread(ctx context.Context, l Layout) error {
	for range 2 { // a server may lose keys once: it restarts, or evicts them
		var keys []string
		var calls []Call
		for range 16 { // all on one of two servers by chance: once in 30,000 times
			key := l.Key(CheckName())
			keys, calls = append(keys, key), append(calls, spread.Call([]string{key}))
		}
		for _, r := range p.RunAll(ctx, calls) {
			if r.Err != nil {
				return r.Err
			}
		}
		if r := p.Run(ctx, spread.Call(keys)); r.Err != nil || r.Value == int64(len(keys)) {
			return r.Err
		}
	}
	return fmt.Errorf("%w: a proxy distributes keys over several servers, so two clients could hold the same lock: use the address of one server, "+
		"or redis+cluster://", driver.ErrRefused)
}

func role(info map[string]string, r Remedies) error {
	switch {
	case info["role"] == "slave":
		return fmt.Errorf("%w: this Redis is a read-only replica of %s:%s: %s", driver.ErrRefused, info["master_host"], info["master_port"], r.Replica)
	case info["role"] == "active-replica":
		return fmt.Errorf("%w: this KeyDB is an active replica: other servers accept writes too, and grant the same locks", driver.ErrRefused)
	case info["cluster_enabled"] == "1" && r.Cluster != "":
		return fmt.Errorf("%w: this Redis is a Redis Cluster node: %s", driver.ErrRefused, r.Cluster)
	}
	return nil
}

// Tried judges the reply of the script Check: an error for the first command that the server or the user's ACL refuses, or a notice if that is
// PUBLISH. WAIT counts if the pipe waits for replicas.
func Tried(r Reply, all *notice.List) error {
	if r.Err != nil {
		return r.Err
	}
	failed, _ := r.Value.([]any)
	for i := 0; i+1 < len(failed); i += 2 {
		command, _ := failed[i].(string)
		text, _ := failed[i+1].(string)
		if command == "PUBLISH" {
			all.Add(driver.Notice{ID: "publish",
				Text:   "The user may not publish, so a release wakes nobody: waiters poll every 250 ms.",
				Remedy: "Allow it, and to subscribe: ACL SETUSER … +publish +subscribe &" + ChannelPrefix + "*"})
			continue
		}
		if strings.Contains(text, "syntax error") { // SET has GET since 6.2
			return fmt.Errorf("%w: Redis is too old: 6.2 or newer is needed (%s: %s)", driver.ErrRefused, command, text)
		}
		return Classify(fmt.Errorf("%s: %w", command, ReplyError(text)), false)
	}
	if refused, ok := errors.AsType[goredis.Error](r.Unacked); ok {
		return Classify(fmt.Errorf("WAIT: %w", refused), false)
	}
	return nil
}
