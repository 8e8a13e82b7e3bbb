package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// requestTime bounds one request to a Redis or an etcd.
const requestTime = 5 * time.Second

// redisClient sends commands to a Redis, each on a connection of its own, so that it knows no state and no reconnecting.
type redisClient struct {
	addr, user, password string
	tls                  *tls.Config // nil: none
}

// do sends one command. The reply is a string, an int64, nil or a []any of these. ctx, or requestTime, bounds it.
func (c redisClient) do(ctx context.Context, args ...any) (any, error) {
	if len(args) == 0 {
		return nil, errors.New("redis: no command")
	}
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	conn, err := c.dial(ctx) // a client that cannot prints it
	if err != nil {
		return nil, fmt.Errorf("redis: %w", err)
	}
	client := goredis.NewClient(&goredis.Options{
		Username: c.user, Password: c.password, Protocol: 2, DisableIdentity: true, PoolSize: 1, MaxRetries: -1, ContextTimeoutEnabled: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	})
	defer func() { _, _ = client.Close(), conn.Close() }()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	words := make([]any, len(args))
	for i, arg := range args {
		words[i] = fmt.Sprint(arg)
	}
	reply, err := client.Do(ctx, words...).Result()
	switch {
	case errors.Is(err, goredis.Nil):
		return nil, nil
	case err != nil && ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	if err != nil {
		return nil, fmt.Errorf("redis %s: %v: %w", c.addr, args[0], err)
	}
	return reply, nil
}

func (c redisClient) dial(ctx context.Context) (net.Conn, error) {
	if c.tls == nil {
		return new(net.Dialer).DialContext(ctx, "tcp", c.addr)
	}
	return (&tls.Dialer{Config: c.tls}).DialContext(ctx, "tcp", c.addr)
}

// info returns the fields of one section of INFO.
func (c redisClient) info(ctx context.Context, section string) (map[string]string, error) {
	reply, err := c.do(ctx, "INFO", section)
	if err != nil {
		return nil, err
	}
	return fields(reply), nil
}

// fields parses the lines "name:value" of INFO and CLUSTER INFO.
func fields(reply any) map[string]string {
	text, _ := reply.(string)
	found := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			found[name] = value
		}
	}
	return found
}
