package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// wordTime bounds one four-letter word. ZooKeeper never answers one that arrives too early in its startup.
const wordTime = time.Second

// ZooKeeperOptions are the options of a ZooKeeper server. The zero value is a plain server. Its data survive SIGKILL and Restart, but not a crash
// of the machine: nothing is synced to disk.
type ZooKeeperOptions struct {
	// Config are more lines of zoo.cfg, which override ours: "forceSync=yes". A tick is 100 ms (tickTime). Sessions last from two ticks to a minute
	// and expire on a tick.
	Config []string
	// JVM are more JVM flags, which override ours: "-Dznode.container.checkIntervalMs=100".
	JVM []string
}

// ZooKeeper is a ZooKeeper server. Safe for concurrent use.
type ZooKeeper struct{ *Server }

// StartZooKeeper starts a single ZooKeeper.
func StartZooKeeper(ctx context.Context, o ZooKeeperOptions) (*ZooKeeper, error) {
	return startZooKeeper(ctx, o, 1)
}

// startZooKeeper starts a ZooKeeper with this id in its ensemble.
func startZooKeeper(ctx context.Context, o ZooKeeperOptions, id int) (*ZooKeeper, error) {
	jars, err := classpath("apt-get install zookeeper (Debian)", "zookeeper", "slf4j-simple")
	if err != nil {
		return nil, err
	}
	java, err := find("java")
	if err != nil {
		return nil, err
	}
	s, err := start(ctx, kind{
		name: "zookeeper", path: java,
		configure: func(_ context.Context, dir string, port int) ([]string, error) {
			args := slices.Concat(smallJava, zooKeeperFlags, o.JVM)
			return append(args, "-cp", jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg"), errors.Join(
				os.MkdirAll(dataDir(dir), 0o700),
				os.WriteFile(filepath.Join(dir, "zoo.cfg"), []byte(o.config(port)), 0o600),
				os.WriteFile(filepath.Join(dir, "data", "myid"), fmt.Append(nil, id), 0o600))
		},
		ready: func(ctx context.Context, addr string) error { _, err := mode(ctx, addr); return err },
	})
	return &ZooKeeper{s}, err
}

// config returns zoo.cfg.
func (o ZooKeeperOptions) config(port int) string {
	return strings.Join(append([]string{
		"dataDir=data",
		fmt.Sprint("clientPort=", port),
		"clientPortAddress=127.0.0.1",
		"tickTime=100",
		"maxSessionTimeout=60000", // far above the default of 20 ticks
		"maxClientCnxns=0",        // no limit
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		"extendedTypesEnabled=true", // nodes with a time to live
		"forceSync=no",
	}, o.Config...), "\n") + "\n"
}

// zooKeeperFlags are settings that zoo.cfg does not accept.
var zooKeeperFlags = []string{
	"-Djava.net.preferIPv4Stack=true",
	"-Dznode.container.checkIntervalMs=1000", // how often empty container nodes are removed; the default is a minute
	"-Dorg.slf4j.simpleLogger.showDateTime=true",
	"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
	"-Dorg.slf4j.simpleLogger.showShortLogName=true",
	"-Dorg.slf4j.simpleLogger.showThreadName=false",
	// Otherwise each four-letter word logs a line or more.
	"-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.NIOServerCnxn=error",
}

// URL returns "zookeeper://127.0.0.1:port".
func (z *ZooKeeper) URL() string { return "zookeeper://" + z.Addr() }

// FourLetter sends a four-letter word ("srvr", "mntr", "dump", "wchp") on a new connection and returns the answer. A server without a leader
// answers that it does not serve. ctx, and 1 s, bound it.
func (z *ZooKeeper) FourLetter(ctx context.Context, word string) (string, error) {
	return fourLetter(ctx, z.Addr(), word)
}

func fourLetter(ctx context.Context, addr, word string) (answer string, err error) {
	err = exchange(ctx, addr, func(conn net.Conn) error {
		_, err1 := io.WriteString(conn, word)
		all, err2 := io.ReadAll(conn)
		answer = string(all)
		return errors.Join(err1, err2)
	})
	return answer, err
}

// exchange calls f with a connection to a ZooKeeper. It closes the connection when ctx ends or after wordTime.
func exchange(ctx context.Context, addr string, f func(net.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, wordTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := f(conn); err != nil {
		return fmt.Errorf("zookeeper %s: %w", addr, cmp.Or(ctx.Err(), err))
	}
	return nil
}

// leads reports whether the node believes that it is the leader.
func (z *ZooKeeper) leads(ctx context.Context) (bool, error) {
	mode, err := mode(ctx, z.Addr())
	return mode == "leader", err
}

// mode returns a server's mode: "standalone", "leader" or "follower". A server without a leader, or about to lose it, is an error.
func mode(ctx context.Context, addr string) (string, error) {
	answer, err := fourLetter(ctx, addr, "srvr")
	if err != nil {
		return "", err
	}
	if _, mode, ok := strings.Cut(answer, "\nMode: "); ok {
		return mode[:strings.IndexByte(mode+"\n", '\n')], nil
	}
	return "", fmt.Errorf("zookeeper %s: %s", addr, strings.TrimSpace(answer))
}
