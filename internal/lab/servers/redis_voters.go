package servers

import (
	"context"
	"errors"
	"strings"
)

// Voters are independent Redis, for Redlock. Safe for concurrent use.
type Voters struct{ group[*Redis] }

// StartVoters returns a function that starts n independent Redis.
func StartVoters(n int) func(context.Context, RedisOptions) (*Voters, error) {
	return func(ctx context.Context, o RedisOptions) (*Voters, error) {
		v := new(Voters)
		if err := v.startAll(ctx, n, func(ctx context.Context, _ int) (*Redis, error) { return StartRedis(ctx, o) }); err != nil {
			return nil, errors.Join(err, v.Close())
		}
		return v, nil
	}
}

// URL returns "redlock://127.0.0.1:port,127.0.0.1:port", with all of them.
func (v *Voters) URL() string { return "redlock://" + strings.Join(v.Addrs(), ",") }
