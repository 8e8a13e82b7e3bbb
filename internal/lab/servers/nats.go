package servers

import (
	"context"
	"fmt"
	"strings"
)

// StartNATS starts a NATS server with JetStream, or a cluster of several, as the module in natsserver pins it. The data survive SIGKILL and Restart.
// When it returns they answer, but a cluster may still be electing leaders. Servers do not advertise each other to clients.
func StartNATS(ctx context.Context, n int) (*Group[*Server], error) {
	path, err := buildNATS()
	if err != nil {
		return nil, err
	}
	return startGroup(ctx, "nats", n, false, func(ctx context.Context, s starting) (*Server, error) {
		var routes []string
		for _, port := range s.ports {
			routes = append(routes, "nats://"+hostPort(port+peerOffset))
		}
		flags := []string{fmt.Sprint("--name=n", s.i), "--addr=127.0.0.1", fmt.Sprint("--port=", s.ports[s.i]), "--jetstream", "--store_dir=data"}
		if n > 1 {
			flags = append(flags, "--cluster_name=lab", "--cluster="+routes[s.i], "--routes="+strings.Join(routes, ","), "--no_advertise")
		}
		return start(ctx, kind{
			name: "nats-server", path: path, port: s.ports[s.i], ready: accepts,
			configure: func(context.Context, string, int) ([]string, error) { return flags, nil },
		})
	})
}
