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

// NeedCurator returns a function for t whose command compiles one Java source file that uses Apache Curator, and runs it with arguments, until
// ctx ends. The client's warnings go to its standard error. The kind in LOCKPORT_TEST_REQUIRE is "curator".
func NeedCurator(t testing.TB) func(ctx context.Context, source string, args ...string) *exec.Cmd {
	t.Helper()
	java := NeedProgram(t, "java", "curator")
	NeedProgram(t, "javac", "curator") // java compiles by itself, if this is there
	jars, err := classpath("apt-get install libcurator-recipes-java (Debian)",
		"curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "slf4j-simple")
	NeedInstalled(t, err, "curator")
	return func(ctx context.Context, source string, args ...string) *exec.Cmd {
		flags := []string{"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", jars, source}
		return exec.CommandContext(ctx, java, slices.Concat(smallJava, flags, args)...)
	}
}
