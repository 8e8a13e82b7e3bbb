package lib

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/lockport/lockport/internal/lab/servers"
)

// Family is a kind of servers.
type Family struct {
	Name, Title string
	Kind        string // of servers.Versions
	Setup       string // for people
	// Start starts the servers, ready to serve. A program that is not installed is a *servers.NotInstalled.
	Start func(ctx context.Context) (*Servers, error)
}

// Servers are those of a family. The caller must Close them.
type Servers struct {
	URL  string
	pids []int
	ends []func() error
}

// limit is how many clients the SQL servers let in: bare locks take one each.
var limit = map[string]string{"max_connections": "800"}

// Families are all there are. Their servers sync nothing to disk: libraries are compared, and a disk's time would hide them.
var Families = []Family{
	{"redis", "Redis", "redis", "one server without persistence", start(1, servers.StartRedis, servers.RedisOptions{})},
	{"redlock", "Redlock, five Redis", "redis", "five servers without persistence", start(5, servers.StartRedis, servers.RedisOptions{})},
	{"etcd", "etcd", "etcd", "one server", start(1, servers.StartEtcd, servers.EtcdOptions{})},
	{"zookeeper", "ZooKeeper", "zookeeper", "one server without fsync", start(1, servers.StartZooKeeper, servers.ZooKeeperOptions{})},
	{"postgres", "PostgreSQL", "postgres", "one server without fsync", start(1, servers.StartPostgres, servers.PostgresOptions{Settings: limit})},
	{"mysql", "MariaDB", "mariadb", "one server without fsync", start(1, servers.StartMariaDB, servers.MariaDBOptions{Settings: limit})},
	{"table", "A table of PostgreSQL", "postgres", "one server without fsync", start(1, servers.StartPostgres, servers.PostgresOptions{Settings: limit})},
	{"nats", "NATS JetStream", "nats", "one server, which syncs every two minutes, as by default; its version is in internal/lab/servers/natsserver", startNATS},
	{"file", "Files", "", "a folder, without any server", startFile},
}

// start starts n servers of one kind. Several of them are a Redlock.
func start[S interface {
	URL() string
	Pid() int
	Close() error
}, O any](n int, start func(context.Context, O) (S, error), o O) func(context.Context) (*Servers, error) {
	return func(ctx context.Context) (*Servers, error) {
		all := &Servers{}
		var hosts []string
		for range n {
			s, err := start(ctx, o)
			if err != nil {
				return nil, errors.Join(err, all.Close())
			}
			all.URL, all.pids, all.ends = s.URL(), append(all.pids, s.Pid()), append(all.ends, s.Close)
			hosts = append(hosts, strings.TrimSuffix(strings.TrimPrefix(all.URL, "redis://"), "/0"))
		}
		if n > 1 {
			all.URL = "redlock://" + strings.Join(hosts, ",")
		}
		return all, nil
	}
}

func startFile(context.Context) (*Servers, error) {
	folder, err := os.MkdirTemp("", "lockport-bench-")
	return &Servers{URL: "file://" + folder, ends: []func() error{func() error { return os.RemoveAll(folder) }}}, err
}

// Close ends the servers.
func (s *Servers) Close() (err error) {
	for _, end := range s.ends {
		err = errors.Join(err, end())
	}
	return err
}

// Load is the processor time of all server processes until now, and their memory; 0 where the system has no /proc.
func (s *Servers) Load() (cpu time.Duration, memory int64) {
	for _, pid := range s.pids {
		c, m := load(pid)
		cpu, memory = cpu+c, memory+m
	}
	return cpu, memory
}

// jiffy is the unit of times in /proc/PID/stat: a hundredth of a second on all systems that Go runs on.
const jiffy = 10 * time.Millisecond

// load is what a process and its descendants have used: Postgres has a process for each connection. Memory is what each process has to itself: what they
// share would count for each of them. See proc_pid_stat(5).
func load(pid int) (cpu time.Duration, memory int64) {
	read := func(file string) string { text, _ := os.ReadFile(file); return string(text) } // empty when the process has ended
	// What the threads have used is known to the nanosecond: hundreds of processes may each have used less than a jiffy.
	var threads time.Duration
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	for _, task := range tasks {
		var ran time.Duration
		_, _ = fmt.Sscan(read(task+"/schedstat"), &ran)
		threads += ran
		for _, child := range strings.Fields(read(task + "/children")) {
			n, _ := strconv.Atoi(child)
			c, m := load(n)
			cpu, memory = cpu+c, memory+m
		}
	}
	stat := read(fmt.Sprintf("/proc/%d/stat", pid))
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:]) // the first is the state: names may have any characters
	var own, ended time.Duration                                    // of this process, and of its children that have ended
	if len(fields) > 14 {
		times := make([]int, 4)
		for i := range times {
			times[i], _ = strconv.Atoi(fields[11+i])
		}
		own, ended = time.Duration(times[0]+times[1])*jiffy, time.Duration(times[2]+times[3])*jiffy
	}
	var size, resident, shared int64
	_, _ = fmt.Sscan(read(fmt.Sprintf("/proc/%d/statm", pid)), &size, &resident, &shared)
	return cpu + max(own, threads) + ended, memory + (resident-shared)*int64(os.Getpagesize())
}
