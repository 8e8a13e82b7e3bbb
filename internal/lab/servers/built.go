package servers

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

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
