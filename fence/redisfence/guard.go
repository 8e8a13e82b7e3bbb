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

// Guard writes for one holder, whose token is registered. Once a greater token is registered, its writes are refused with errors that match
// fence.ErrStale. Safe for concurrent use.
type Guard struct {
	fence *Fence
	token lockport.Token
	lock  *redis.Entry // also checked, unless nil
}

// Token is the holder's token.
func (g *Guard) Token() lockport.Token { return g.token }

// Run runs a script, in one request, if the token is still the latest. The script sees keys and args as KEYS and ARGV. The command's result is
// like that of redis.Script.Run: the script's value, goredis.Nil for none, or the error reply that it returned or raised. If ctx ends, the request may
// still be sent: do not change what an argument points to, unless it is a []byte.
func (g *Guard) Run(ctx context.Context, s *Script, keys []string, args ...any) *goredis.Cmd {
	result := goredis.NewCmd(ctx)
	value, err := g.run(ctx, "write guarded", s, keys, args) // the data are elsewhere
	if err == nil && value == nil {
		err = goredis.Nil
	}
	if err != nil {
		result.SetErr(err)
		return result
	}
	result.SetVal(value)
	return result
}

// run runs a script behind the guard's lines, whose keys and arguments come last.
func (g *Guard) run(ctx context.Context, did string, s *Script, keys []string, args []any) (any, error) {
	script := s.guarded
	keys, args = slices.Clone(keys), slices.Clone(args)
	for i, arg := range args {
		if b, ok := arg.([]byte); ok {
			args[i] = string(b) // the request may outlive this call; the caller may then change b
		}
	}
	if g.lock != nil {
		script = s.locked
		keys, args = append(keys, g.lock.Key), append(args, g.lock.Value)
	}
	call := script.Call(append(keys, g.fence.Key()), append(args, g.fence.place.Format(g.token))...)
	r := g.fence.pipe.RunAll(ctx, []redisscript.Call{call})[0] // shares no pipeline with other writes
	if r.Err != nil {
		return nil, g.explain(did, r.Err)
	}
	return r.Value, nil
}

// Do runs one command whose second argument is its key, as in almost all: Do(ctx, "INCRBY", "balance:{account-7}", 5). The command's result is
// like Run's.
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

// Set sets a key. expiration is in whole milliseconds; 0 means none.
func (g *Guard) Set(ctx context.Context, key string, value any, expiration time.Duration) error {
	args := []any{"SET", key, value}
	if expiration != 0 {
		args = append(args, "PX", expiration.Milliseconds())
	}
	return g.Do(ctx, args...).Err()
}

// Lines that precede a script. They go onto its first line, so that line numbers in its errors stay right; therefore these files have no comments.
// Each removes its key and argument from the end of KEYS and ARGV, so that the script sees only its own.
var (
	//go:embed lua/guard.lua
	guardLine string // the token must equal the registered one
	//go:embed lua/lock.lua
	lockLine string // the lock must exist, with a value of its own type
	//go:embed lua/register.lua
	registerLine string // the token must not be smaller; compared as text, since Lua numbers are exact only to 2^53
)

var (
	set      = "if seen ~= token then redis.call('set', key, token) end return 1"
	register = &Script{guarded: before(set, registerLine), locked: before(set, registerLine, lockLine)}
	command  = NewScript("return redis.call(unpack(ARGV))")
)

// Script is a Lua script for Guard.Run. Safe for concurrent use. Make it once.
type Script struct {
	guarded, locked *redisscript.Script
}

// NewScript makes a script from source, written as for EVAL, without a shebang line: it uses KEYS and ARGV, and what it returns or raises is
// passed on. It runs only if the guard's check passes.
func NewScript(source string) *Script {
	return &Script{guarded: before(source, guardLine), locked: before(source, guardLine, lockLine)}
}

// before puts lines before a script.
func before(source string, lines ...string) *redisscript.Script {
	head := ""
	for _, l := range lines {
		head += strings.Join(strings.Fields(l), " ") + " "
	}
	return redisscript.NewScript(head + source)
}
