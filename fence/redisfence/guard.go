package redisfence

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/redis"
)

// Guard writes for one holder, whose token is registered. Its writes are refused, with errors that match fence.ErrStale, from the moment at which a
// greater token is registered. Safe for concurrent use.
type Guard struct {
	fence *Fence
	token lockport.Token
	text  string       // the token
	lock  *redis.Entry // checked too; nil: not
}

// Token is the holder's.
func (g *Guard) Token() lockport.Token { return g.token }

// Run runs a script, in one request, if the token is still the latest. KEYS and ARGV are those that are given here. The command has what the script
// returned, as that of redis.Script.Run has: goredis.Nil for no value, the error reply that the script returned or raised.
func (g *Guard) Run(ctx context.Context, s *Script, keys []string, args ...any) *goredis.Cmd {
	result := goredis.NewCmd(ctx)
	value, err := g.run(ctx, s, keys, args)
	if err != nil {
		result.SetErr(err)
		return result
	}
	result.SetVal(value)
	return result
}

func (g *Guard) run(ctx context.Context, s *Script, keys []string, args []any) (any, error) {
	script := s.guarded
	keys, argv := append([]string(nil), keys...), append([]any(nil), args...)
	if g.lock != nil {
		script = s.locked
		keys, argv = append(keys, g.lock.Key), append(argv, g.lock.Value)
	}
	value, sent, err := script.RunOnce(ctx, g.fence.client, append(keys, g.fence.key), append(argv, g.text))
	if err != nil {
		return nil, g.explain("write", sent, err)
	}
	return value, nil
}

// Do runs one command, the second of whose arguments is its key, as in almost all: Do(ctx, "INCRBY", "balance:{account-7}", 5). The command has its
// reply, or its error, as that of Run has.
func (g *Guard) Do(ctx context.Context, args ...any) *goredis.Cmd {
	var keys []string
	if len(args) > 1 {
		key, ok := args[1].(string)
		if !ok {
			result := goredis.NewCmd(ctx, args...)
			result.SetErr(fmt.Errorf("redisfence: Do: the second argument is a %T: it must be the key, a string", args[1]))
			return result
		}
		keys = []string{key}
	}
	return g.Run(ctx, command, keys, args...)
}

// Set sets a key. expiration is rounded up to milliseconds; 0: none.
func (g *Guard) Set(ctx context.Context, key string, value any, expiration time.Duration) error {
	args := []any{"SET", key, value}
	switch {
	case expiration < 0:
		return fmt.Errorf("redisfence: Set: the expiration is %v; it cannot be negative", expiration)
	case expiration > 0:
		args = append(args, "PX", int64((expiration+time.Millisecond-1)/time.Millisecond))
	}
	err := g.Do(ctx, args...).Err()
	if errors.Is(err, goredis.Nil) {
		return nil
	}
	return err
}
