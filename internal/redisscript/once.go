package redisscript

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

// RunOnce runs s on client's server that has keys, and returns soon after ctx ends. It uses one of the client's connections, outside any
// Pipe. It resends only what the server certainly did not run. err comes from go-redis; sent: the script may have run or may still run.
func (s *Script) RunOnce(ctx context.Context, client goredis.UniversalClient, keys []string, argv []any) (value any, sent bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	args := s.Call(keys, argv...)
	for _, a := range [][]any{args, s.withSource(args)} {
		cmd := newCommand(a)
		err = Guard(ctx, func() error { return client.Process(ctx, cmd) })
		switch {
		case isNoScript(err):
			continue
		case err != nil:
			// If ctx ended, go-redis goes on, and writes the command once it has a connection.
			return nil, cmd.sent(err) || ctx.Err() != nil, err
		}
		return cmd.Val(), true, nil
	}
	return nil, false, err
}
