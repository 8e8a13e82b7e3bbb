package redisfence

import (
	_ "embed"
	"strings"

	"github.com/lockport/lockport/internal/redisscript"
)

// What is put before a script, on its first line: the numbers of lines in its errors stay right, so these files have no comments. Each takes its key
// and its argument away from the end of KEYS and ARGV, so that a script finds its own and nothing else.
var (
	//go:embed lua/guard.lua
	guardLine string // the token must be the registered one
	//go:embed lua/lock.lua
	lockLine string // the lock must be there

	//go:embed lua/register.lua
	registerSource string
)

var (
	register     = redisscript.NewScript(registerSource)
	registerLock = before(registerSource, lockLine)
	command      = NewScript("return redis.call(unpack(ARGV))")
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
