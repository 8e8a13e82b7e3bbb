package servers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	javaInstall      = "apt-get install default-jre-headless (Debian)"
	javacInstall     = "apt-get install default-jdk-headless (Debian)"
	zooKeeperInstall = "apt-get install zookeeper (Debian)"
	curatorInstall   = "apt-get install libcurator-recipes-java (Debian)"
)

// jarFolder is where Debian's packages put their jars. Each names the jars that it needs in turn.
const jarFolder = "/usr/share/java"

// smallJava are flags for a small machine that starts fast and leaves nothing in the temporary folder, not even when it is killed.
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

// Curator runs Java programs that use Apache Curator.
type Curator struct {
	java, classpath string
}

// findCurator finds Java, its compiler and Curator, or returns a [*NotInstalled].
func findCurator() (Curator, error) {
	java, err := find("java", javaInstall)
	if err != nil {
		return Curator{}, err
	}
	if _, err := find("javac", javacInstall); err != nil { // java compiles by itself, if this is there
		return Curator{}, err
	}
	jars, err := classpath(curatorInstall, "curator-recipes", "curator-framework", "curator-client",
		"zookeeper", "zookeeper-jute", "guava", "slf4j-simple")
	return Curator{java: java, classpath: jars}, err
}

// NeedCurator returns a Curator for t, or skips or fails t by the rules in the package comment: the name in LOCKPORT_TEST_REQUIRE
// is "curator".
func NeedCurator(t testing.TB) Curator {
	t.Helper()
	return need(t, "curator", func(context.Context) (Curator, error) { return findCurator() })
}

// Command is the command that compiles one source file and runs it with arguments, until ctx ends. The client's warnings go
// to its standard error.
func (c Curator) Command(ctx context.Context, source string, args ...string) *exec.Cmd {
	var all []string
	all = append(all, smallJava...)
	all = append(all, "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", c.classpath, source)
	return exec.CommandContext(ctx, c.java, append(all, args...)...)
}

// Close does nothing: each Command is its caller's.
func (Curator) Close() error { return nil }

// Log is empty: what a Command prints is its caller's.
func (Curator) Log() string { return "" }
