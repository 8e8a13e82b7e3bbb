package servers

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"time"
)

// versionNumber is the first thing in a program's answer that looks like one.
var versionNumber = regexp.MustCompile(`\d+\.\d+[0-9.]*`)

// Versions are those of the servers that are installed, by kind, as their programs say. What is not installed, or does not say, is not
// there. ctx, and 5 s for each, bound the questions.
func Versions(ctx context.Context) map[string]string {
	versions := make(map[string]string)
	for kind, program := range map[string]string{
		"redis": "redis-server", "etcd": "etcd", "postgres": "postgres", "pgbouncer": "pgbouncer", "mariadb": "mariadbd",
	} {
		if path, err := find(program, ""); err == nil {
			ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
			out, _ := exec.CommandContext(ctx, path, "--version").CombinedOutput()
			cancel()
			if v := versionNumber.Find(out); v != nil {
				versions[kind] = string(v)
			}
		}
	}
	// ZooKeeper's has no such option, but Debian's jar has its version in its name.
	jars, _ := filepath.Glob(filepath.Join(jarFolder, "zookeeper-[0-9]*.jar"))
	for _, jar := range jars {
		versions["zookeeper"] = string(versionNumber.Find([]byte(filepath.Base(jar[:len(jar)-len(".jar")]))))
	}
	return versions
}
