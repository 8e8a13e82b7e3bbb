package redis

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// The oldest Redis that will do: SET with GET and PX came with 6.2.
const (
	minMajor = 6
	minMinor = 2
)

// Check implements driver.Checker.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	var all notices
	err := redisscript.Guard(ctx, func() error {
		err := b.eachNode(ctx, func(ctx context.Context, node goredis.Cmdable) error { return b.checkNode(ctx, node, &all) })
		if err != nil {
			return err
		}
		if err := b.tryCommands(ctx, &all); err != nil {
			return err
		}
		return b.tryListening(ctx, &all)
	})
	if err != nil {
		return nil, explain(err)
	}
	return all.list, nil
}

// explain puts an error of Check into a line that says what to do.
func explain(err error) error {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("%w: Redis cannot be reached, is it running and is the address right? (%w)", driver.ErrUnavailable, err)
	}
	return redisscript.Classify(err, false)
}

// notices are collected from several nodes, each kind once.
type notices struct{ list []driver.Notice }

func (n *notices) add(add driver.Notice) {
	for _, have := range n.list {
		if have.ID == add.ID {
			return
		}
	}
	n.list = append(n.list, add)
}

// denied reports that the server knows the command and does not let us use it.
func denied(err error) bool {
	return goredis.IsPermissionError(err) || goredis.HasErrorPrefix(err, "ERR unknown command")
}

// checkNode looks at the settings and the role of a node.
func (b *Backend) checkNode(ctx context.Context, node goredis.Cmdable, all *notices) error {
	text, err := node.Info(ctx).Result()
	if err != nil && denied(err) {
		all.add(driver.Notice{ID: "info", Unknown: true,
			Text:   "The server does not let us use INFO, so its version, role, eviction policy, replicas and persistence are not known.",
			Remedy: "Allow it (+info), or look yourself."})
		return nil
	}
	if err != nil {
		return err
	}
	info := parseInfo(text)
	if err := checkVersion(info["redis_version"]); err != nil {
		return err
	}
	if info["role"] == "slave" {
		return fmt.Errorf("%w: this Redis is a read-only replica of %s:%s: use its master's address, or Sentinel",
			driver.ErrRefused, info["master_host"], info["master_port"])
	}
	if _, ok := b.client.(*goredis.ClusterClient); !ok && info["cluster_enabled"] == "1" {
		return fmt.Errorf("%w: this Redis is a node of a Redis Cluster: use redis+cluster:// or a cluster client", driver.ErrRefused)
	}
	if err := b.checkReplicas(info, all); err != nil {
		return err
	}
	checkEviction(info, all)
	checkPersistence(ctx, node, info, all)
	return nil
}

// parseInfo reads what INFO says.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if key, value, ok := strings.Cut(strings.TrimSpace(lines.Text()), ":"); ok {
			info[key] = value
		}
	}
	return info
}

func checkVersion(version string) error {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return nil // not told: the commands will tell
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	if err1 == nil && err2 == nil && (major < minMajor || major == minMajor && minor < minMinor) {
		return fmt.Errorf("%w: Redis %s is too old: %d.%d or newer is needed", driver.ErrRefused, version, minMajor, minMinor)
	}
	return nil
}

func (b *Backend) checkReplicas(info map[string]string, all *notices) error {
	replicas, _ := strconv.Atoi(info["connected_slaves"])
	switch {
	case replicas < b.o.Replicas:
		return fmt.Errorf("%w: locks are to be acknowledged by %d replicas, and %d are connected: add replicas or ask for fewer",
			driver.ErrUnavailable, b.o.Replicas, replicas)
	case replicas > 0 && b.o.Replicas == 0:
		all.add(driver.Notice{ID: "replication",
			Text: fmt.Sprintf("The server has %d connected replica(s), to which locks are copied only after they were granted: "+
				"a fail-over can forget a lock that is held, and grant it again.", replicas),
			Remedy: "Check fencing tokens where it matters; the option Replicas (URL: replicas=1) makes the loss rarer; " +
				"redlock, etcd or ZooKeeper exclude it."})
	}
	return nil
}

func checkEviction(info map[string]string, all *notices) {
	switch policy, limit := info["maxmemory_policy"], info["maxmemory"]; {
	case policy == "":
		all.add(driver.Notice{ID: "eviction-policy", Unknown: true,
			Text:   "The server does not say what it does when its memory is full; if it evicts keys, it can forget locks that are held.",
			Remedy: "See that its maxmemory-policy is noeviction."})
	case policy != "noeviction" && limit != "0":
		all.add(driver.Notice{ID: "eviction-policy",
			Text:   fmt.Sprintf("The eviction policy is %s: when its memory is full, the server can forget locks that are held.", policy),
			Remedy: "Set maxmemory-policy noeviction, or keep locks on a server of their own."})
	}
}

func checkPersistence(ctx context.Context, node goredis.Cmdable, info map[string]string, all *notices) {
	if info["aof_enabled"] == "1" {
		return
	}
	const remedy = "Switch the append-only file on (appendonly yes), or accept that the fencing tokens alone protect across a restart: " +
		"they keep rising."
	config, err := node.ConfigGet(ctx, "save").Result()
	switch {
	case err != nil || info["aof_enabled"] == "":
		all.add(driver.Notice{ID: "persistence", Unknown: true,
			Text:   "The server does not say whether it saves its data; if it does not, it forgets all locks when it restarts.",
			Remedy: remedy})
	case config["save"] == "":
		all.add(driver.Notice{ID: "persistence",
			Text:   "The server does not save its data: when it restarts, it forgets all locks, those that are held included.",
			Remedy: remedy})
	default:
		all.add(driver.Notice{ID: "persistence",
			Text:   "The server saves its data at intervals only: when it crashes, it forgets the locks that were taken since.",
			Remedy: remedy})
	}
}

// tryCommands does what the scripts do, on a key that nobody uses.
func (b *Backend) tryCommands(ctx context.Context, all *notices) error {
	keys := makeKeys(b.layout.Key("lockport-check-" + rand.Text()))
	r := b.server.Run(ctx, keys.lock, checkScript, keys.args(checkScript), false)
	if r.Err != nil {
		return r.Err
	}
	failed, _ := r.Value.([]any)
	for i := 0; i+1 < len(failed); i += 2 {
		command, _ := failed[i].(string)
		text, _ := failed[i+1].(string)
		if command == "PUBLISH" {
			all.add(driver.Notice{ID: "publish",
				Text:   "The user may not publish, so that the release of a lock wakes nobody: waiters look again every 250 ms.",
				Remedy: "Allow it: ACL SETUSER … +publish &" + channelPrefix + "*"})
			continue
		}
		return redisscript.Classify(fmt.Errorf("%s: %w", command, redisscript.ReplyError(text)), false)
	}
	return nil
}

// tryListening subscribes as hints do.
func (b *Backend) tryListening(ctx context.Context, all *notices) error {
	pubsub := b.client.Subscribe(ctx)
	defer func() { _ = pubsub.Close() }()
	err := pubsub.Subscribe(ctx, channelPrefix)
	if err == nil {
		_, err = pubsub.ReceiveTimeout(ctx, 2*time.Second)
	}
	if reply := goredis.Error(nil); errors.As(err, &reply) {
		all.add(driver.Notice{ID: "subscribe",
			Text:   "The user may not subscribe, so that nobody tells this client of a release: it looks again every 250 ms.",
			Remedy: "Allow it: ACL SETUSER … +subscribe &" + channelPrefix + "*"})
		return nil
	}
	return err
}
