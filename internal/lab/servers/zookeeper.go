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
	"strconv"
	"strings"
	"time"
)

const (
	zooKeeperTick = 100 * time.Millisecond
	// longestSession is far above ZooKeeper's own bound of 20 ticks.
	longestSession = time.Minute
	// containerCheck is how often empty container nodes are looked for; ZooKeeper itself does once a minute.
	containerCheck = time.Second
	// wordTime bounds one four-letter word. ZooKeeper never answers one that arrives early in its start.
	wordTime = time.Second

	configFile = "zoo.cfg"
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
type ZooKeeper struct {
	*server
}

// StartZooKeeper starts a ZooKeeper that stands alone, ready when it serves. ctx bounds the start alone. The caller must Close
// the server.
func StartZooKeeper(ctx context.Context, o ZooKeeperOptions) (*ZooKeeper, error) {
	return startZooKeeper(ctx, o, zooKeeperRole{})
}

// zooKeeperRole is what a ZooKeeper is in an ensemble. The zero value: it stands alone.
type zooKeeperRole struct {
	id     int      // its number there
	config []string // further lines of zoo.cfg
	jvm    []string
}

func startZooKeeper(ctx context.Context, o ZooKeeperOptions, role zooKeeperRole) (*ZooKeeper, error) {
	jars, err := classpath(zooKeeperInstall, "zookeeper", "slf4j-simple")
	if err != nil {
		return nil, err
	}
	java, err := find("java", javaInstall)
	if err != nil {
		return nil, err
	}
	var folder string // of the server, known when it is configured
	s, err := startServer(ctx, program{
		name: "zookeeper",
		path: java,
		data: []string{"data/version-2"},
		configure: func(dir string, port int) ([]string, error) {
			folder = dir
			config := slices.Concat(o.config(dir, port), role.config, o.Config)
			args := slices.Concat(smallJava, zooKeeperFlags(), role.jvm, o.JVM)
			args = append(args, "-cp", jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain", filepath.Join(dir, configFile))
			return args, role.write(dir, config)
		},
		ready: func(ctx context.Context, addr string, _ int) error { return zooKeeperReady(ctx, addr, folder) },
	}, freePort)
	if err != nil {
		return nil, err
	}
	return &ZooKeeper{server: s}, nil
}

// config returns the lines of zoo.cfg.
func (o ZooKeeperOptions) config(dir string, port int) []string {
	tick := cmp.Or(o.TickTime, zooKeeperTick)
	return []string{
		"dataDir=" + dataDir(dir),
		fmt.Sprint("clientPort=", port),
		"clientPortAddress=127.0.0.1",
		fmt.Sprint("tickTime=", tick.Milliseconds()),
		fmt.Sprint("maxSessionTimeout=", longestSession.Milliseconds()),
		"maxClientCnxns=0", // any number
		"admin.enableServer=false",
		"4lw.commands.whitelist=*",
		"extendedTypesEnabled=true", // nodes with a time to live
		"forceSync=no",
	}
}

// zooKeeperFlags are what ZooKeeper's own settings cannot say.
func zooKeeperFlags() []string {
	const log = "-Dorg.slf4j.simpleLogger."
	return []string{
		"-Djava.net.preferIPv4Stack=true",
		fmt.Sprint("-Dznode.container.checkIntervalMs=", containerCheck.Milliseconds()),
		log + "showDateTime=true", log + "dateTimeFormat=HH:mm:ss.SSS", log + "showShortLogName=true", log + "showThreadName=false",
		log + "log.org.apache.zookeeper.server.NIOServerCnxn=error", // else a line or more for each four-letter word
	}
}

func dataDir(dir string) string { return filepath.Join(dir, "data") }

// write writes what the server reads into its folder.
func (r zooKeeperRole) write(dir string, config []string) error {
	files := map[string]string{configFile: strings.Join(config, "\n") + "\n"}
	if r.id != 0 {
		files[filepath.Join("data", "myid")] = strconv.Itoa(r.id)
	}
	err := os.MkdirAll(dataDir(dir), 0o700)
	for name, text := range files {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return err
}

// zooKeeperReady asks the server for its folder too: the port may be another's. In an ensemble it does not say before there is a
// leader, which this server follows.
func zooKeeperReady(ctx context.Context, addr, dir string) error {
	conf, err := fourLetter(ctx, addr, "conf")
	if err != nil {
		return err
	}
	if !strings.Contains(conf, "dataDir="+dataDir(dir)) {
		return fmt.Errorf("zookeeper %s does not serve, or is not ours: %s", addr, strings.TrimSpace(conf))
	}
	return nil
}

// URL is the server's: "zookeeper://127.0.0.1:port".
func (z *ZooKeeper) URL() string { return "zookeeper://" + z.Addr() }

// FourLetter sends one of ZooKeeper's four-letter words ("srvr", "mntr", "dump", "wchp"), on a connection of its own, and returns the
// answer. A server that has no leader answers that it does not serve. ctx, and 1 s, bound it.
func (z *ZooKeeper) FourLetter(ctx context.Context, word string) (string, error) {
	return fourLetter(ctx, z.Addr(), word)
}

func fourLetter(ctx context.Context, addr, word string) (string, error) {
	if len(word) != 4 {
		return "", fmt.Errorf("servers: zookeeper: %q has not four letters", word)
	}
	ctx, cancel := context.WithTimeout(ctx, wordTime)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", fmt.Errorf("zookeeper %s: %s: %w", addr, word, err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		return "", fmt.Errorf("zookeeper %s: %s: %w", addr, word, cmp.Or(ctx.Err(), err))
	}
	return string(answer), nil
}

// Mode is what the server calls itself: "standalone", "leader" or "follower". One that has no leader, or is about to lose it, is an
// error.
func (z *ZooKeeper) Mode(ctx context.Context) (string, error) {
	answer, err := z.FourLetter(ctx, "srvr")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(answer) {
		if mode, ok := strings.CutPrefix(line, "Mode: "); ok {
			return strings.TrimSpace(mode), nil
		}
	}
	return "", fmt.Errorf("zookeeper %s: %s", z.Addr(), strings.TrimSpace(answer))
}
