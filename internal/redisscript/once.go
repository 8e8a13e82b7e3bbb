package redisscript

import (
	"context"

	goredis "github.com/redis/go-redis/v9"
)

// RunOnce runs s on the server of client that has keys, over a connection of the client's own, and returns soon after ctx ends. What is sent is
// not sent again unless the server certainly has not run it. err is what go-redis returned; sent: the script may have run, or may yet.
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
			// If it is that of ctx, go-redis is still at it, and will write the command as soon as it has a connection.
			return nil, cmd.sent(err) || ctx.Err() != nil, err
		}
		return cmd.Val(), true, nil
	}
	return nil, false, err
}
