package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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
	client := goredis.NewClient(&goredis.Options{
		Addr: c.addr, Username: c.user, Password: c.password, TLSConfig: c.tls,
		Protocol: 2, DisableIdentity: true, PoolSize: 1, MaxRetries: -1, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
	defer func() { _ = client.Close() }()
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
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
