package servers

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// NATS is one NATS server with JetStream, or a cluster of several, as the module in natsserver pins it. The data survive SIGKILL and Restart. Safe
// for concurrent use.
type NATS struct{ group[*Server] }

// StartNATS starts n servers. When it returns they answer, but a cluster may still be electing leaders. Servers do not advertise each other to
// clients.
func StartNATS(ctx context.Context, n int) (*NATS, error) {
	path, err1 := buildNATS()
	ports, err2 := freePorts(n)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	var routes []string
	for _, port := range ports {
		routes = append(routes, "nats://"+hostPort(port+peerOffset))
	}
	all := new(NATS)
	err := all.startAll(ctx, n, func(ctx context.Context, i int) (*Server, error) {
		flags := []string{fmt.Sprint("--name=n", i), "--addr=127.0.0.1", fmt.Sprint("--port=", ports[i]), "--jetstream", "--store_dir=data"}
		if n > 1 {
			flags = append(flags, "--cluster_name=lab", "--cluster="+routes[i], "--routes="+strings.Join(routes, ","), "--no_advertise")
		}
		return start(ctx, kind{
			name: "nats-server", path: path, port: ports[i], ready: accepts,
			configure: func(context.Context, string, int) ([]string, error) { return flags, nil },
		})
	})
	if err != nil {
		return nil, errors.Join(err, all.Close())
	}
	return all, nil
}
