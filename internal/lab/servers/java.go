package servers

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

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
