package servers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
)

// NATS is a NATS server with JetStream, which the module in natsserver pins. Its data outlive kill -9 and Restart. Safe for concurrent use.
type NATS struct{ *server }

// NATSServers are one NATS server, or several that are a cluster. Safe for concurrent use.
type NATSServers struct{ group[*NATS] }

// StartNATS starts n servers. They answer when it returns, but several still have to elect leaders. Clients learn of no other server than those they are given.
func StartNATS(ctx context.Context, n int) (*NATSServers, error) {
	path, err := buildNATS()
	if err != nil {
		return nil, err
	}
	ports, routes := make([]int, n), make([]string, n)
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
		routes[i] = "nats://" + hostPort(ports[i]+peerOffset)
	}
	all := new(NATSServers)
	err = all.startAll(ctx, n, func(ctx context.Context, i int) (*NATS, error) {
		flags := []string{fmt.Sprint("--name=n", i), "--addr=127.0.0.1", fmt.Sprint("--port=", ports[i]), "--jetstream", "--store_dir=data"}
		if n > 1 {
			flags = append(flags, "--cluster_name=lab", "--cluster="+routes[i], "--routes="+strings.Join(routes, ","), "--no_advertise")
		}
		s, err := start(ctx, kind{
			name: "nats-server", path: path, port: ports[i], ready: greets,
			configure: func(context.Context, string, int) ([]string, error) { return flags, nil },
		})
		return &NATS{s}, err
	})
	if err != nil {
		return nil, errors.Join(err, all.Close())
	}
	return all, nil
}

// greets waits for what a NATS server says first.
func greets(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err == nil && !strings.HasPrefix(line, "INFO ") {
		err = fmt.Errorf("nats-server said %q", line)
	}
	return err
}
