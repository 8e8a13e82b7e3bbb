package servers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// NotInstalled is the error for a missing program. It says what to install. Match it with errors.As.
type NotInstalled struct {
	Program string // "redis-server"
	Install string // "apt-get install redis-server (Debian), brew install redis (macOS)"
}

// Error names the program and what to install.
func (e *NotInstalled) Error() string { return fmt.Sprintf("%s not found: %s", e.Program, e.Install) }

const (
	postgresInstall = "apt-get install postgresql (Debian), brew install postgresql (macOS)"
	mariaDBInstall  = "apt-get install mariadb-server (Debian), brew install mariadb (macOS)"
)

// installs maps a program to what you install to get it.
var installs = map[string]string{
	"etcd":               "apt-get install etcd-server (Debian), brew install etcd (macOS)",
	"etcd-current":       "go tool builds it in internal/lab/servers/etcdserver; the first build needs the network",
	"etcdctl":            "apt-get install etcd-client (Debian), brew install etcd (macOS)",
	"gcc":                "apt-get install gcc libc6-dev (Debian)",
	"initdb":             postgresInstall,
	"java":               "apt-get install default-jre-headless (Debian)",
	"javac":              "apt-get install default-jdk-headless (Debian)",
	"mariadb-install-db": mariaDBInstall,
	"mariadbd":           mariaDBInstall,
	"nats-server":        "go tool builds it in internal/lab/servers/natsserver; the first build needs the network",
	"pg_basebackup":      postgresInstall,
	"pgbouncer":          "apt-get install pgbouncer (Debian), brew install pgbouncer (macOS)",
	"postgres":           postgresInstall,
	"redis-cli":          "apt-get install redis-tools (Debian), brew install redis (macOS)",
	"redis-server":       "apt-get install redis-server (Debian), brew install redis (macOS)",
}

func missing(program string) error {
	return &NotInstalled{Program: program, Install: installs[program]}
}

// usualFolders are searched after PATH. On Debian, ordinary users' PATH lacks the sbin folders and Postgres' folder.
var usualFolders = []string{
	"/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin", "/opt/homebrew/bin", "/opt/homebrew/sbin", "/usr/lib/postgresql/*/bin",
}

// withoutVariable is a comma-separated list of programs to treat as not installed.
const withoutVariable = "LOCKPORT_TEST_WITHOUT"

// find returns the path of a program in installs, or a *NotInstalled.
func find(program string) (string, error) {
	if slices.Contains(strings.Split(os.Getenv(withoutVariable), ","), program) {
		return "", missing(program)
	}
	if path, err := exec.LookPath(program); err == nil {
		return filepath.Abs(path)
	}
	for _, folder := range usualFolders {
		matches, _ := filepath.Glob(filepath.Join(folder, program))
		for _, path := range slices.Backward(matches) { // the newest version first
			if path, err := exec.LookPath(path); err == nil {
				return path, nil
			}
		}
	}
	return "", missing(program)
}

// versionNumber matches the version in a program's answer to --version.
var versionNumber = regexp.MustCompile(`\d+\.\d+[0-9.]*`)

// Versions returns the versions of the installed servers, by kind, as the programs print them. ctx, and 5 s for each program, bound it.
func Versions(ctx context.Context) map[string]string {
	versions := make(map[string]string)
	for kind, program := range map[string]string{
		"redis": "redis-server", "etcd": "etcd", "postgres": "postgres", "pgbouncer": "pgbouncer", "mariadb": cmp.Or(mysqld(), "mariadbd"),
	} {
		if path, err := find(program); err == nil {
			ctx, cancel := context.WithTimeout(ctx, requestTime)
			out, _ := exec.CommandContext(ctx, path, "--version").CombinedOutput()
			cancel()
			if v := versionNumber.Find(out); v != nil {
				versions[kind] = string(v)
			}
		}
	}
	// ZooKeeper has no --version, but the name of Debian's jar contains the version.
	jars, _ := filepath.Glob(filepath.Join(jarFolder, "zookeeper-[0-9]*.jar"))
	for _, jar := range jars {
		versions["zookeeper"] = versionNumber.FindString(strings.TrimSuffix(filepath.Base(jar), ".jar"))
	}
	return versions
}

// buildEtcd and buildNATS return the path of a server that a nested module pins: the current etcd, and NATS. If the build fails (no go command, or
// no network the first time), the error matches *NotInstalled.
var (
	buildEtcd = goTool("etcd-current", "etcdserver", "go.etcd.io/etcd/server/v3")
	buildNATS = goTool("nats-server", "natsserver", "github.com/nats-io/nats-server/v2")
)

// goTool builds the tool of the module in folder into the go command's cache, and copies it to where every user can execute it.
func goTool(program, folder, tool string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		_, file, _, _ := runtime.Caller(0)
		var failure bytes.Buffer
		cmd := exec.Command("go", "tool", "-n", tool)
		cmd.Dir = filepath.Join(filepath.Dir(file), folder)
		// The flags of the test build must not apply: each set of flags would cause another build.
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false", "CGO_ENABLED=0", "GOOS=", "GOARCH=")
		cmd.Stderr = &failure
		built, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("cannot build %s: %w: %s\n%w", program, err, bytes.TrimSpace(failure.Bytes()), missing(program))
		}
		binary, err1 := os.ReadFile(string(bytes.TrimSpace(built)))
		dir, err2 := processFolder()
		copied := filepath.Join(dir, program)
		return copied, errors.Join(err1, err2, os.WriteFile(copied, binary, 0o755))
	})
}
