package redisfence

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/redis"
	"github.com/lockport/lockport/internal/redisscript"
)

// Guard writes for one holder, whose token is registered. Its writes are refused, with errors that match fence.ErrStale, from the moment at which a
// greater token is registered. Safe for concurrent use.
type Guard struct {
	fence *Fence
	token lockport.Token
	lock  *redis.Entry // checked too; nil: not
}

// Token is the holder's.
func (g *Guard) Token() lockport.Token { return g.token }

// Run runs a script, in one request, if the token is still the latest. KEYS and ARGV are those that are given here. The command has what the script
// returned, as that of redis.Script.Run has: goredis.Nil for no value, the error reply that the script returned or raised.
func (g *Guard) Run(ctx context.Context, s *Script, keys []string, args ...any) *goredis.Cmd {
	result := goredis.NewCmd(ctx)
	value, err := g.run(ctx, "write", s, keys, args)
	if err != nil {
		result.SetErr(err)
		return result
	}
	result.SetVal(value)
	return result
}

// run runs a script with what the guard puts before it, whose keys and arguments are at the end.
func (g *Guard) run(ctx context.Context, did string, s *Script, keys []string, args []any) (any, error) {
	script := s.guarded
	keys, args = slices.Clone(keys), slices.Clone(args)
	if g.lock != nil {
		script = s.locked
		keys, args = append(keys, g.lock.Key), append(args, g.lock.Value)
	}
	value, sent, err := script.RunOnce(ctx, g.fence.client, append(keys, g.fence.Key()), append(args, g.fence.place.Format(g.token)))
	if err != nil {
		return nil, g.explain(did, sent, err)
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

// Set sets a key. expiration is in whole milliseconds; 0: none.
func (g *Guard) Set(ctx context.Context, key string, value any, expiration time.Duration) error {
	args := []any{"SET", key, value}
	if expiration != 0 {
		args = append(args, "PX", expiration.Milliseconds())
	}
	return g.Do(ctx, args...).Err()
}

// What is put before a script, on its first line: the numbers of lines in its errors stay right, so these files have no comments. Each takes its key
// and its argument away from the end of KEYS and ARGV, so that a script finds its own and nothing else.
var (
	//go:embed lua/guard.lua
	guardLine string // the token must be the registered one
	//go:embed lua/lock.lua
	lockLine string // the lock must be there
	//go:embed lua/register.lua
	registerLine string // the token must not be smaller. It may be greater than what a number of Lua holds exactly, so it is compared as text
)

var (
	set      = "if seen ~= token then redis.call('set', key, token) end return 1"
	register = &Script{guarded: before(set, registerLine), locked: before(set, registerLine, lockLine)}
	command  = NewScript("return redis.call(unpack(ARGV))")
)

// Script is a Lua script that Guard.Run can run. Safe for concurrent use; make it once.
type Script struct {
	guarded, locked *redisscript.Script
}

// NewScript makes a script of its source, which is written as for EVAL: it finds its keys in KEYS, its arguments in ARGV, and what it returns, or
// raises, is passed on. It runs only where the guard lets it.
func NewScript(source string) *Script {
	return &Script{guarded: before(source, guardLine), locked: before(source, guardLine, lockLine)}
}

// before puts lines before a script: behind the line that tells Redis 7 how to run it, if there is one.
func before(source string, lines ...string) *redisscript.Script {
	head := ""
	if strings.HasPrefix(source, "#!") {
		first, rest, _ := strings.Cut(source, "\n")
		head, source = first+"\n", rest
	}
	for _, l := range lines {
		head += strings.Join(strings.Fields(l), " ") + " "
	}
	return redisscript.NewScript(head + source)
}
