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

// buildEtcd and buildNATS return the path of a server that a module in a folder beside this file pins: the current etcd, and NATS. Where it cannot be
// built (no go, no network the first time) the error matches a *NotInstalled.
var (
	buildEtcd = builds("etcd-current", "etcdserver", "go.etcd.io/etcd/server/v3")
	buildNATS = builds("nats-server", "natsserver", "github.com/nats-io/nats-server/v2")
)

// builds has the go command build the tool of the module in folder into its own cache, where later processes find it, and copies it to where everybody
// can execute it.
func builds(program, folder, tool string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		_, file, _, _ := runtime.Caller(0)
		var failure bytes.Buffer
		cmd := exec.Command("go", "tool", "-n", tool)
		cmd.Dir = filepath.Join(filepath.Dir(file), folder)
		// Nothing of how the tests are built, lest it be built again for each way.
		cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false", "CGO_ENABLED=0", "GOOS=", "GOARCH=")
		cmd.Stderr = &failure
		built, err := cmd.Output()
		if err != nil {
			return "", fmt.Errorf("cannot build %s: %w: %s\n%w", program, err, bytes.TrimSpace(failure.Bytes()), missing(program))
		}
		binary, err1 := os.ReadFile(string(bytes.TrimSpace(built)))
		dir, err2 := lastingFolder()
		copied := filepath.Join(dir, program)
		return copied, errors.Join(err1, err2, os.WriteFile(copied, binary, 0o755))
	})
}
