package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// etcdClient sends requests to one etcd, each on a connection of its own.
type etcdClient struct {
	addr     string
	tls      *tls.Config // nil: none
	password string      // root's; empty: there are no users
}

// use calls f with a client. ctx, or requestTime, bounds it.
func (e etcdClient) use(ctx context.Context, f func(ctx context.Context, c *clientv3.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	// clientv3 would wait a second before it tried again.
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", e.addr)
	if err != nil {
		return err
	}
	_ = conn.Close()
	config := clientv3.Config{Endpoints: []string{e.addr}, TLS: e.tls.Clone(), Context: ctx, Logger: zap.NewNop(), MaxUnaryRetries: 1}
	if e.password != "" {
		config.Username, config.Password = "root", e.password
	}
	c, err := clientv3.New(config)
	if err == nil {
		err = f(ctx, c)
		_ = c.Close()
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	if err != nil {
		return fmt.Errorf("etcd %s: %w", e.addr, err)
	}
	return nil
}

// status asks this node alone, but to log in takes a majority.
func (e etcdClient) status(ctx context.Context) (answer *clientv3.StatusResponse, err error) {
	err = e.use(ctx, func(ctx context.Context, c *clientv3.Client) error {
		answer, err = c.Status(ctx, e.addr)
		return err
	})
	return answer, err
}

// memberNamed returns the member of that name.
func (e etcdClient) memberNamed(ctx context.Context, name string) (id uint64, err error) {
	err = e.use(ctx, func(ctx context.Context, c *clientv3.Client) error {
		list, err := c.MemberList(ctx, clientv3.WithSerializable())
		if err != nil {
			return err
		}
		for _, member := range list.Members {
			if member.Name == name {
				id = member.ID
				return nil
			}
		}
		return fmt.Errorf("there is no member %s: it is not ours", name)
	})
	return id, err
}

// enableAuth makes the user root, and has requests without a user refused from now on. ctx, and startTime, bound it.
func (e etcdClient) enableAuth(ctx context.Context, password string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for _, step := range []func(context.Context, *clientv3.Client) error{
		func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.UserAdd(ctx, "root", password)
			return err
		},
		func(ctx context.Context, c *clientv3.Client) error { _, err := c.RoleAdd(ctx, "root"); return err },
		func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.UserGrantRole(ctx, "root", "root")
			return err
		},
		func(ctx context.Context, c *clientv3.Client) error { _, err := c.AuthEnable(ctx); return err },
	} {
		err := poll(ctx, func() error {
			err := e.use(ctx, step)
			code := status.Code(err)
			var refusal rpctypes.EtcdError
			if errors.As(err, &refusal) {
				code = refusal.Code()
			} else if _, answered := status.FromError(err); !answered {
				return err
			}
			switch {
			case err == nil, code == codes.Unavailable, code == codes.DeadlineExceeded:
				return err // no leader at the moment: it may or may not come to be
			case strings.Contains(err.Error(), "already exists"), strings.Contains(err.Error(), "user name is empty"):
				return nil // an earlier try has come to be, if only the last step
			}
			return stopPolling{err}
		})
		if err != nil {
			return err
		}
	}
	return nil
}
