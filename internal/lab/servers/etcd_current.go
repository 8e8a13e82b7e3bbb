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

// buildEtcd returns the path of the current etcd, which the module in the folder etcdserver, beside this file, pins. Where it cannot be
// built (no go, no network the first time) the error matches a *NotInstalled.
var buildEtcd = sync.OnceValues(buildCurrentEtcd)

// buildCurrentEtcd has the go command build it into its own cache, where later processes find it, and copies it to where everybody
// can execute it.
func buildCurrentEtcd() (string, error) {
	_, file, _, _ := runtime.Caller(0)
	var failure bytes.Buffer
	cmd := exec.Command("go", "tool", "-n", "go.etcd.io/etcd/server/v3")
	cmd.Dir = filepath.Join(filepath.Dir(file), "etcdserver")
	// Nothing of how the tests are built, lest it be built again for each way.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false", "CGO_ENABLED=0", "GOOS=", "GOARCH=")
	cmd.Stderr = &failure
	built, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("cannot build a current etcd: %w: %s\n%w", err, bytes.TrimSpace(failure.Bytes()), missing("etcd-current"))
	}
	program, err1 := os.ReadFile(string(bytes.TrimSpace(built)))
	dir, err2 := lastingFolder()
	copied := filepath.Join(dir, "etcd-current")
	return copied, errors.Join(err1, err2, os.WriteFile(copied, program, 0o755))
}
