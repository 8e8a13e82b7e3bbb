package redischeck

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/notice"
	"github.com/lockport/lockport/internal/redisclaims"
	"github.com/lockport/lockport/internal/redisscript"
)

// The oldest supported Redis: 6.2 introduced SET with both GET and PX.
const (
	minMajor = 6
	minMinor = 2
)

// Explain converts the error of a check to one line that says what to do.
func Explain(err error) error {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("%w: Redis cannot be reached, is it running and is the address right? (%w)", driver.ErrUnavailable, dial)
	}
	return redisscript.Classify(err, false)
}

// denied reports that the server does not let us use the command.
func denied(err error) bool {
	return goredis.IsPermissionError(err) || goredis.HasErrorPrefix(err, "unknown command") // go-redis strips the ERR
}

// Info returns the server's INFO, and how far its clock is ahead of this machine's. If INFO is not permitted, it returns nil and adds a
// notice.
func Info(ctx context.Context, node goredis.Cmdable, all *notice.List) (info map[string]string, ahead time.Duration, err error) {
	sent := time.Now()
	text, err := node.Info(ctx).Result()
	if err != nil && denied(err) {
		all.Add(driver.Notice{ID: "info", Unknown: true,
			Text:   "The server does not permit INFO, so its version, role, eviction policy, replicas, persistence and clock are not known.",
			Remedy: "Allow it (+info), or check them yourself."})
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, err
	}
	info = parseInfo(text)
	if us, err := strconv.ParseInt(info["server_time_usec"], 10, 64); err == nil {
		ahead = notice.ClockOffset(sent, time.UnixMicro(us), time.Now())
	}
	return info, ahead, nil
}

// Settings refuses a server that is too old. It adds notices if the server lacks connections for this client, or forgets locks when its
// memory is full or when it restarts. connections is how many this client needs; remedy applies to the restart.
func Settings(ctx context.Context, node goredis.Cmdable, info map[string]string, connections int, remedy string, all *notice.List) error {
	used, _ := strconv.Atoi(info["connected_clients"])
	limit, _ := strconv.Atoi(info["maxclients"])
	all.Add(notice.Connections(used, limit, connections)...)
	evicts(info, all)
	persists(ctx, node, info, remedy, all)
	return version(info)
}

// parseInfo parses the reply to INFO.
func parseInfo(text string) map[string]string {
	info := make(map[string]string)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if key, value, ok := strings.Cut(strings.TrimSpace(lines.Text()), ":"); ok {
			info[key] = value
		}
	}
	return info
}

// version refuses a server that is too old.
func version(info map[string]string) error {
	said := info["redis_version"]
	parts := strings.SplitN(said, ".", 3)
	if len(parts) < 2 {
		return nil // not reported: the commands will show
	}
	major, err1 := strconv.Atoi(parts[0])
	minor, err2 := strconv.Atoi(parts[1])
	if err1 == nil && err2 == nil && (major < minMajor || major == minMajor && minor < minMinor) {
		return fmt.Errorf("%w: Redis %s is too old: %d.%d or newer is needed", driver.ErrRefused, said, minMajor, minMinor)
	}
	return nil
}

func evicts(info map[string]string, all *notice.List) {
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
}

func persists(ctx context.Context, node goredis.Cmdable, info map[string]string, remedy string, all *notice.List) {
	if info["aof_enabled"] == "1" {
		return
	}
	config, err := node.ConfigGet(ctx, "save").Result()
	switch {
	case err != nil || info["aof_enabled"] == "":
		all.Add(driver.Notice{ID: "persistence", Unknown: true,
			Text:   "The server does not say whether it saves its data; if it does not, it forgets all locks when it restarts.",
			Remedy: remedy})
	case config["save"] == "":
		all.Add(driver.Notice{ID: "persistence",
			Text:   "The server does not save its data: when it restarts, it forgets all locks, even held ones.",
			Remedy: remedy})
	default:
		all.Add(driver.Notice{ID: "persistence",
			Text:   "The server saves its data only at intervals: when it crashes, it forgets the locks granted since the last save.",
			Remedy: remedy})
	}
}

// Tried judges the reply of the script Check: an error for the first command that the user may not use, or a notice if that is PUBLISH.
func Tried(r redisscript.Reply, all *notice.List) error {
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
				Remedy: "Allow it: ACL SETUSER … +publish &" + redisclaims.ChannelPrefix + "*"})
			continue
		}
		return redisscript.Classify(fmt.Errorf("%s: %w", command, redisscript.ReplyError(text)), false)
	}
	return nil
}

// Listening checks that the user may subscribe, as redisclaims does.
func Listening(ctx context.Context, client goredis.UniversalClient, all *notice.List) error {
	pubsub := client.Subscribe(ctx)
	defer func() { _ = pubsub.Close() }()
	err := pubsub.Subscribe(ctx, redisclaims.ChannelPrefix)
	if err == nil {
		_, err = pubsub.ReceiveTimeout(ctx, 2*time.Second)
	}
	if reply := goredis.Error(nil); errors.As(err, &reply) {
		all.Add(driver.Notice{ID: "subscribe",
			Text:   "The user may not subscribe, so releases do not wake this client: it polls every 250 ms.",
			Remedy: "Allow it: ACL SETUSER … +subscribe &" + redisclaims.ChannelPrefix + "*"})
		return nil
	}
	return err
}
