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

const (
	zooKeeperTick = 100 * time.Millisecond
	// wordTime bounds one four-letter word. ZooKeeper never answers one that arrives early in its start.
	wordTime = time.Second
)

// ZooKeeperOptions are the options of a ZooKeeper server. The zero value is a plain one. Its data outlive kill -9 and Restart,
// though not the machine: nothing is synced to disk.
type ZooKeeperOptions struct {
	// TickTime is ZooKeeper's unit of time, in whole milliseconds: sessions last from two ticks to a minute, and their
	// ends are noticed at a tick. Default: 100 ms.
	TickTime time.Duration
	// Config are further lines of zoo.cfg, which win over ours: "forceSync=yes".
	Config []string
	// JVM are further flags of the Java machine, which win over ours: "-Dznode.container.checkIntervalMs=100".
	JVM []string
}

// ZooKeeper is a ZooKeeper server. Safe for concurrent use.
type ZooKeeper struct{ *Server }

// StartZooKeeper starts a ZooKeeper that stands alone.
func StartZooKeeper(ctx context.Context, o ZooKeeperOptions) (*ZooKeeper, error) {
	return startZooKeeper(ctx, o, 1)
}

// startZooKeeper starts a ZooKeeper with that number in its ensemble.
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

// config is zoo.cfg.
func (o ZooKeeperOptions) config(port int) string {
	return strings.Join(append([]string{
		"dataDir=data",
		fmt.Sprint("clientPort=", port),
		"clientPortAddress=127.0.0.1",
		fmt.Sprint("tickTime=", cmp.Or(o.TickTime, zooKeeperTick).Milliseconds()),
		"maxSessionTimeout=60000", // far above ZooKeeper's own bound of 20 ticks
		"maxClientCnxns=0",        // any number
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		"extendedTypesEnabled=true", // nodes with a time to live
		"forceSync=no",
	}, o.Config...), "\n") + "\n"
}

// zooKeeperFlags are what ZooKeeper's own settings cannot say.
var zooKeeperFlags = []string{
	"-Djava.net.preferIPv4Stack=true",
	"-Dznode.container.checkIntervalMs=1000", // how often empty container nodes are looked for: ZooKeeper itself does once a minute
	"-Dorg.slf4j.simpleLogger.showDateTime=true",
	"-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
	"-Dorg.slf4j.simpleLogger.showShortLogName=true",
	"-Dorg.slf4j.simpleLogger.showThreadName=false",
	// Else it logs a line or more for each four-letter word.
	"-Dorg.slf4j.simpleLogger.log.org.apache.zookeeper.server.NIOServerCnxn=error",
}

// URL is the server's: "zookeeper://127.0.0.1:port".
func (z *ZooKeeper) URL() string { return "zookeeper://" + z.Addr() }

// FourLetter sends one of ZooKeeper's four-letter words ("srvr", "mntr", "dump", "wchp"), on a connection of its own, and returns the
// answer. A server that has no leader answers that it does not serve. ctx, and 1 s, bound it.
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

// exchange calls f with a connection to a ZooKeeper, which it closes at the end of ctx or after wordTime.
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

// leads is whether the node believes that it leads.
func (z *ZooKeeper) leads(ctx context.Context) (bool, error) {
	mode, err := mode(ctx, z.Addr())
	return mode == "leader", err
}

// mode is what a server calls itself: "standalone", "leader" or "follower". One that has no leader, or is about to lose it, is an
// error.
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
