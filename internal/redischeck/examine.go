package redischeck

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/examine"
)

// Server is what Examine found of one server.
type Server struct {
	Name     string            // "Redis 7.0.15", empty if it does not say
	Info     map[string]string // nil if it is not permitted
	Settings map[string]string // of those in asked, nil if CONFIG is not permitted
	Ahead    time.Duration     // by how much its clock is ahead of ours, at the least
}

// asked are the settings that Examine asks for.
var asked = []string{"timeout", "client-output-buffer-limit", "min-replicas-to-write", "cluster-require-full-coverage", "stop-writes-on-bgsave-error"}

// defects are errors of Redis 6.2 and newer that make it forget locks against its own promise, or answer wrongly to what locks rest on.
var defects = []examine.Defect{{
	From: examine.Version{7, 0, 0}, Fixed: examine.Version{7, 0, 5},
	Text: "while the append-only file is rewritten, a crash of the machine loses writes that appendfsync had promised to keep",
	Link: "https://github.com/redis/redis/pull/11004",
}}

// Examine looks at one server more closely than a check. where names it, where there are several. need is how many connections a client has.
func Examine(ctx context.Context, node goredis.Cmdable, where string, ttl time.Duration, need int, all *Notices) (s Server, err error) {
	before := time.Now()
	switch at, err := node.Time(ctx).Result(); {
	case err != nil && !denied(err):
		return s, err
	case err != nil:
		all.Add(driver.Notice{ID: "clock-offset", Unknown: true,
			Text:   where + "The server does not let us use TIME, so it is not known whether its clock is right: locks expire by it.",
			Remedy: "Allow it (+time), or look yourself."})
	default:
		s.Ahead = examine.Offset(before, at, time.Now())
	}
	if s.Info, err = Info(ctx, node, all); err != nil {
		return s, err
	}
	if s.Info != nil {
		s.Name = name(s.Info)
		if s.Info["server_name"] == "" || s.Info["server_name"] == "redis" { // Valkey tells the version of Redis that it stands for
			all.Add(examine.Defects(where, "Redis", s.Info["redis_version"], defects)...)
		}
		used, _ := strconv.Atoi(s.Info["connected_clients"])
		limit, _ := strconv.Atoi(s.Info["maxclients"])
		all.Add(examine.Connections(where, used, limit, need)...)
		memory(where, s.Info, all)
	}
	var unasked []string
	if s.Settings, err = settings(ctx, node); err != nil && !denied(err) {
		return s, err
	} else if err != nil {
		unasked = append(unasked, "CONFIG GET")
	}
	s.look(where, ttl, all)
	switch slow, err := node.SlowLogGet(ctx, 128).Result(); {
	case err != nil && !denied(err):
		return s, err
	case err != nil:
		unasked = append(unasked, "SLOWLOG GET")
	default:
		all.Add(slowest(where, slow, before, ttl)...)
	}
	if len(unasked) > 0 {
		all.Add(driver.Notice{ID: "settings", Unknown: true,
			Text: fmt.Sprintf("%sThe server does not let us use %s, so its time-outs, limits and slow commands are not known.", where,
				strings.Join(unasked, " and ")),
			Remedy: "Allow it (+config|get +slowlog|get), or look yourself."})
	}
	return s, nil
}

func name(info map[string]string) string {
	if v := info["valkey_version"]; v != "" {
		return "Valkey " + v
	}
	if v := info["redis_version"]; v != "" {
		return "Redis " + v
	}
	return ""
}

// settings asks for each of asked that the server knows.
func settings(ctx context.Context, node goredis.Cmdable) (map[string]string, error) {
	found := make(map[string]string)
	for _, name := range asked {
		answer, err := node.ConfigGet(ctx, name).Result()
		if err != nil {
			return nil, err
		}
		for k, v := range answer {
			found[k] = v
		}
	}
	return found, nil
}

// memory looks whether the server has room for another lock, or soon will not.
func memory(where string, info map[string]string, all *Notices) {
	used, _ := strconv.ParseInt(info["used_memory"], 10, 64)
	limit, _ := strconv.ParseInt(info["maxmemory"], 10, 64)
	if limit > 0 && used > limit/10*9 && info["maxmemory_policy"] == "noeviction" {
		all.Add(driver.Notice{ID: "memory",
			Text:   fmt.Sprintf("%s%d of %d MB of the server's memory are in use: when it is full, no lock can be taken.", where, used>>20, limit>>20),
			Remedy: "Raise maxmemory, or remove what is not needed."})
	}
}

// look says what the settings endanger.
func (s *Server) look(where string, ttl time.Duration, all *Notices) {
	seconds, _ := strconv.Atoi(s.Settings["timeout"])
	if idle := time.Duration(seconds) * time.Second; idle > 0 && idle < ttl {
		all.Add(driver.Notice{ID: "idle-timeout",
			Text: fmt.Sprintf("%sThe server closes connections that were idle for %v (timeout), which is less than the TTL of %v: a renewal may have to connect first, "+
				"and what is sent as the connection is closed has an unknown outcome.", where, idle, ttl),
			Remedy: "Set timeout to 0, or above the TTL."})
	}
	if hard := pubsubLimit(s.Settings["client-output-buffer-limit"]); hard > 0 && hard < 1<<20 {
		all.Add(driver.Notice{ID: "pubsub-buffer",
			Text: fmt.Sprintf("%sThe server drops listeners to whom more than %d bytes are to be sent (client-output-buffer-limit pubsub): "+
				"releases are then told late, after 5 s at worst.", where, hard),
			Remedy: `Set client-output-buffer-limit "pubsub 32mb 8mb 60", the default.`})
	}
	failed := ""
	switch {
	case s.Info["aof_last_write_status"] == "err":
		failed = "append-only file"
	case s.Info["rdb_last_bgsave_status"] == "err" && s.Settings["stop-writes-on-bgsave-error"] != "no":
		failed = "snapshot"
	}
	if failed != "" {
		all.Add(driver.Notice{ID: "disk",
			Text:   fmt.Sprintf("%sThe server could not write its last %s: as long as that is so it may refuse every claim, renewal and release.", where, failed),
			Remedy: "Look into its log, and make room on its disk."})
	}
}

// pubsubLimit is the hard limit for listeners in "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60".
func pubsubLimit(text string) int64 {
	fields := strings.Fields(text)
	for i := 0; i+1 < len(fields); i++ {
		if fields[i] == "pubsub" {
			n, _ := strconv.ParseInt(fields[i+1], 10, 64)
			return n
		}
	}
	return 0
}

// slowest is the notice about the slowest command of the day before now.
func slowest(where string, log []goredis.SlowLog, now time.Time, ttl time.Duration) []driver.Notice {
	var worst goredis.SlowLog
	for _, entry := range log {
		if now.Sub(entry.Time) < 24*time.Hour && entry.Duration > worst.Duration && len(entry.Args) > 0 {
			worst = entry
		}
	}
	if len(worst.Args) == 0 {
		return nil
	}
	return examine.Stall(where, strings.ToUpper(worst.Args[0]), worst.Duration, ttl) // what stands behind it may be secret
}
