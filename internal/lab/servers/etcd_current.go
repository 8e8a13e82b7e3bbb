package servers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

const (
	// etcdModule is the folder, beside this file, of the module that pins the current etcd.
	etcdModule = "etcdserver"
	etcdTool   = "go.etcd.io/etcd/server/v3"
)

// etcdBuild holds the path of the current etcd, empty until it is built. Who has taken it out is building.
var etcdBuild = func() chan string {
	c := make(chan string, 1)
	c <- ""
	return c
}()

// buildEtcd returns the path of the current etcd. The go command builds it into its own cache, where later processes find it
// and several may build at once, and changes no file of the module. Where that fails (no go, no network the first time) the
// error matches a *NotInstalled.
func buildEtcd(ctx context.Context) (path string, err error) {
	select {
	case path = <-etcdBuild:
	case <-ctx.Done():
		return "", fmt.Errorf("servers: waiting for a current etcd to be built: %w", context.Cause(ctx))
	}
	defer func() { etcdBuild <- path }()
	if path != "" {
		return path, nil
	}
	_, file, _, _ := runtime.Caller(0)
	var output, failure bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "tool", "-n", etcdTool)
	cmd.Dir = filepath.Join(filepath.Dir(file), etcdModule)
	// Nothing of how the tests are built, lest it be built again for each way.
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly -buildvcs=false", "CGO_ENABLED=0", "GOOS=", "GOARCH=")
	cmd.Stdout, cmd.Stderr = &output, &failure
	err = cmd.Run()
	built := string(bytes.TrimSpace(output.Bytes()))
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("servers: building a current etcd: %w", context.Cause(ctx))
	case err == nil && !filepath.IsAbs(built):
		err = errors.New("go tool -n named no file: " + built)
	}
	if err != nil {
		return "", fmt.Errorf("cannot build a current etcd: %w: %s\n%w", err, bytes.TrimSpace(failure.Bytes()), &NotInstalled{
			Program: "etcd-current",
			Install: "it is built by go tool in internal/lab/servers/" + etcdModule + ", the first time over the network",
		})
	}
	path = built
	return path, nil
}
