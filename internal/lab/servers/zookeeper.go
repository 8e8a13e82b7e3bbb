package servers

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// wordTime bounds one four-letter word. ZooKeeper never answers one that arrives too early in its startup.
const wordTime = time.Second

// ZooKeeperOptions are the options of a ZooKeeper server. The zero value is a plain server, whose data survive SIGKILL and Restart.
type ZooKeeperOptions struct {
	// Config are more lines of zoo.cfg, which override ours: "forceSync=yes". Sessions last from two ticks of 100 ms to a minute.
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

// StartEnsemble starts an ensemble, ready when all nodes serve. A node notices within a second that it lost its leader or its followers. The next
// leader is elected about 300 ms later.
func StartEnsemble(ctx context.Context, o ZooKeeperOptions) (*Group[*ZooKeeper], error) {
	return startGroup(ctx, "zookeeper", quorumNodes, true, func(ctx context.Context, s starting) (*ZooKeeper, error) {
		config := []string{
			"initLimit=50", // ticks to join a leader
			"syncLimit=10", // ticks of silence after which a leader or follower is dropped
		}
		for j, port := range s.ports { // for followers, and for elections
			config = append(config, fmt.Sprintf("server.%d=127.0.0.1:%d:%d", j+1, port, port+peerOffset))
		}
		_, proxyPort, _ := strings.Cut(s.proxy, ":")
		jvm := []string{
			"-DsocksProxyHost=127.0.0.1",
			"-DsocksProxyPort=" + proxyPort,
			"-DsocksNonProxyHosts=", // none; by default, Java bypasses the proxy for loopback addresses
			// An isolated node asks for votes ever less often, down to once a minute. After Join that would be too slow.
			"-Dzookeeper.fastleader.maxNotificationInterval=400",
		}
		return startZooKeeper(ctx, ZooKeeperOptions{Config: append(config, o.Config...), JVM: append(jvm, o.JVM...)}, s.i+1)
	})
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
		name: "zookeeper", path: java, url: url.URL{Scheme: "zookeeper"},
		configure: func(_ context.Context, dir string, port int) ([]string, error) {
			args := slices.Concat(smallJava, zooKeeperFlags, o.JVM)
			return append(args, "-cp", jars, "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg"), errors.Join(
				os.MkdirAll(dataDir(dir), 0o700),
				os.WriteFile(filepath.Join(dir, "zoo.cfg"), []byte(o.config(port)), 0o600),
				os.WriteFile(filepath.Join(dir, "data", "myid"), fmt.Append(nil, id), 0o600))
		},
		// A new session takes a quorum. The server's mode is not enough: for a while after a node lost the others, it calls itself leader or follower.
		ready: func(ctx context.Context, s *Server) error { _, err := (&ZooKeeper{s}).endSession(ctx, 0); return err },
		leads: func(ctx context.Context, s *Server) (bool, error) {
			answer, err := (&ZooKeeper{s}).FourLetter(ctx, "srvr")
			return strings.Contains(answer, "\nMode: leader\n"), err
		},
	})
	return &ZooKeeper{s}, err
}

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

// FourLetter sends a four-letter word ("srvr", "mntr", "dump", "wchp") on a new connection and returns the answer. ctx, and 1 s, bound it.
func (z *ZooKeeper) FourLetter(ctx context.Context, word string) (answer string, err error) {
	err = z.exchange(ctx, func(conn net.Conn) error {
		_, err1 := io.WriteString(conn, word)
		all, err2 := io.ReadAll(conn)
		answer = string(all)
		return errors.Join(err1, err2)
	})
	return answer, err
}

// exchange calls f with a connection. It closes the connection when ctx ends or after wordTime.
func (z *ZooKeeper) exchange(ctx context.Context, f func(net.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, wordTime)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", z.Addr())
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if err := f(conn); err != nil {
		return fmt.Errorf("zookeeper %s: %w", z.Addr(), cmp.Or(ctx.Err(), err))
	}
	return nil
}

// EndSession closes another client's session, with all its ephemeral nodes, and returns when it is gone. ZooKeeper has no such command, but the
// password that resumes a session depends on the session's number alone. The client learns of it with its next request.
func (z *ZooKeeper) EndSession(ctx context.Context, session int64) error {
	return Poll(ctx, func(ctx context.Context) error {
		gone, err := z.endSession(ctx, session)
		if err == nil && !gone {
			err = fmt.Errorf("zookeeper %s: session %#x still exists", z.Addr(), session)
		}
		return err
	})
}

// endSession resumes the session, or makes a new one for session 0, and closes it. gone: the session did not exist. Its client may resume it first.
func (z *ZooKeeper) endSession(ctx context.Context, session int64) (gone bool, err error) {
	err = z.exchange(ctx, func(conn net.Conn) error {
		const closeSession = -11
		if err := binary.Write(conn, binary.BigEndian, struct { // two packets, each preceded by its length
			Length, Version uint32
			LastSeen        int64
			Timeout         uint32 // the server may change it
			Session         int64
			PasswordLength  uint32
			Password        [16]byte
			Length2, Number uint32
			Operation       int32
		}{44, 0, 0, 10_000, session, 16, sessionPassword(session), 8, 1, closeSession}); err != nil {
			return err
		}
		var attached struct {
			Length, Version, Timeout uint32
			Session                  int64
		}
		if err := binary.Read(conn, binary.BigEndian, &attached); err != nil {
			return fmt.Errorf("cannot resume session %#x: %w", session, err)
		}
		if gone = attached.Session == 0; gone {
			return nil
		}
		_, err := io.Copy(io.Discard, conn) // the server disconnects once the session is closed
		return err
	})
	return gone, err
}

// sessionPassword computes a session's password as ZooKeeper does: bytes of a java.util.Random seeded with the session's number.
func sessionPassword(session int64) (password [16]byte) {
	const (
		secret     = 0xB3415C00 // superSecret in ZooKeeper's ZooKeeperServer
		multiplier = 0x5DEECE66D
		increment  = 0xB
		mask       = 1<<48 - 1
	)
	seed := (uint64(session) ^ secret ^ multiplier) & mask
	for i := 0; i < len(password); i += 4 {
		seed = (seed*multiplier + increment) & mask
		binary.LittleEndian.PutUint32(password[i:], uint32(seed>>16))
	}
	return password
}

// jarFolder is where Debian's packages put their jars. Each jar's manifest names its dependencies.
const jarFolder = "/usr/share/java"

// smallJava makes the JVM small and quick to start. It leaves nothing in the temporary folder, even if it is killed.
var smallJava = []string{
	"-Xshare:auto", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xms32m", "-Xmx256m", "-XX:-UsePerfData",
}

func classpath(install string, names ...string) (string, error) {
	var paths []string
	for _, name := range names {
		path := filepath.Join(jarFolder, name+".jar")
		if _, err := os.Stat(path); err != nil {
			return "", &NotInstalled{Program: path, Install: install}
		}
		paths = append(paths, path)
	}
	return strings.Join(paths, string(os.PathListSeparator)), nil
}

// NeedCurator returns a function that makes a command, which compiles and runs a Java source file that uses Apache Curator, until ctx ends.
func NeedCurator(t testing.TB) func(ctx context.Context, source string, args ...string) *exec.Cmd {
	t.Helper()
	java := NeedProgram(t, "java")
	NeedProgram(t, "javac") // java compiles source files only if the JDK is installed
	jars, err := classpath("apt-get install libcurator-recipes-java (Debian)",
		"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "slf4j-simple")
	NeedInstalled(t, err)
	return func(ctx context.Context, source string, args ...string) *exec.Cmd {
		flags := []string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", jars, source}
		return exec.CommandContext(ctx, java, slices.Concat(smallJava, flags, args)...)
	}
}
