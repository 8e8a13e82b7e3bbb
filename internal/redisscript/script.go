package redisscript

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"
)

// Script is a Lua script. Its arguments are those of EVALSHA: see Args.
type Script struct {
	source string
	sha    any // a string, boxed once
	urgent bool

	many *Script // does for many locks what this does for one; nil: there is none
	keys int     // that it has of each; not known without
}

// together says that many does for many locks, with so many keys each, what s does for one.
func (s *Script) together(many *Script, keys int) *Script {
	s.many, s.keys = many, keys
	return s
}

// Urgent makes a [Pipe] send the source with the first call, where a server that does not know the script would otherwise cost a second round
// trip. It is for scripts that come after others: whether a user may call scripts by their name must have been seen by then.
func (s *Script) Urgent() *Script {
	s.urgent = true
	return s
}

// NewScript makes a script of its source.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source)) // what Redis calls a script by
	return &Script{source: source, sha: hex.EncodeToString(sum[:])}
}

var (
	evalSHA any = "evalsha"
	eval    any = "eval"
)

// Args begins the arguments of a call of s: append the number of keys, the keys and the script's own arguments. n is how many.
func (s *Script) Args(n int) []any {
	return append(make([]any, 0, n+2), evalSHA, s.sha)
}

// withSource are the arguments that send the source along.
func (s *Script) withSource(args []any) []any {
	full := append([]any(nil), args...)
	full[0], full[1] = eval, s.source
	return full
}

// command is a call of a script under way, or a PING, for go-redis. It may not be sent twice, and knows whether it was sent at all.
type command struct {
	*goredis.Cmd
	written atomic.Bool
}

func newCommand(args []any) *command {
	c := &command{Cmd: goredis.NewCmd(context.Background(), plain(args)...)}
	if len(args) > 3 {
		c.SetFirstKeyPos(3)
	}
	return c
}

// outcome is what came of the command. A nil reply is no error.
func (c *command) outcome(err error) (any, error) {
	if err == goredis.Nil {
		err = nil
	}
	return c.Val(), err
}

var ping any = "ping"

// NoRetry tells go-redis not to send the command again after an error.
func (*command) NoRetry() bool { return true }

// Args is what go-redis asks for when it begins to write the command, once it has a connection that is ready.
func (c *command) Args() []any {
	c.written.Store(true)
	return c.Cmd.Args()
}

// Names reports whether request, as it goes to the server, calls s, for one lock or many.
func (s *Script) Names(request []byte) bool {
	return s.many != nil && s.many.Names(request) || bytes.Contains(request, []byte(s.sha.(string))) || bytes.Contains(request, []byte(s.source))
}
