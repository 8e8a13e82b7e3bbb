package redisscript

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"sync/atomic"

	goredis "github.com/redis/go-redis/v9"
)

// Script is a Lua script.
type Script struct {
	source string
	sha    string
	acks   bool    // what it does is to last: replicas are waited for where that is asked of the pipe
	many   *Script // does for many locks what this does for one; nil: there is none
	other  *Script // see Beside
}

// lasting says that replicas are to have what s does.
func (s *Script) lasting() *Script {
	s.acks = true
	return s
}

// together says that many does for many locks what s does for one.
func (s *Script) together(many *Script) *Script {
	s.many, many.acks = many, s.acks
	return s
}

// beside says that other does for readers and permits what s does for a claim that holds its name alone.
func (s *Script) beside(other *Script) *Script {
	s.other = other
	return s
}

// Beside is the script that does for readers and permits what s does for a claim that holds its name alone.
func (s *Script) Beside() *Script { return s.other }

// NewScript makes a script of its source.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source)) // what Redis calls a script by
	return &Script{source: source, sha: hex.EncodeToString(sum[:])}
}

// Call returns the arguments of a call of s: those of EVALSHA.
func (s *Script) Call(keys []string, argv ...any) []any {
	args := append(make([]any, 0, 3+len(keys)+len(argv)), "evalsha", s.sha, len(keys))
	for _, k := range keys {
		args = append(args, k)
	}
	return append(args, argv...)
}

// withSource are the arguments that send the source along, for a server that does not know s yet.
func (s *Script) withSource(args []any) []any {
	full := append([]any(nil), args...)
	full[0], full[1] = "eval", s.source
	return full
}

// Names reports whether request, as it goes to the server, calls s, for one lock or many, alone or beside others.
func (s *Script) Names(request []byte) bool {
	return s.many != nil && s.many.Names(request) || s.other != nil && s.other.Names(request) || bytes.Contains(request, []byte(s.sha)) || bytes.Contains(request, []byte(s.source))
}

// command is a call of a script that go-redis may not send twice. It knows whether go-redis has begun to write it.
type command struct {
	*goredis.Cmd
	written atomic.Bool
}

func newCommand(args []any) *command {
	c := &command{Cmd: goredis.NewCmd(context.Background(), args...)}
	if len(args) > 3 {
		c.SetFirstKeyPos(3) // by which a cluster client finds the node
	}
	return c
}

// NoRetry tells go-redis not to send the command again after an error.
func (*command) NoRetry() bool { return true }

// Args is what go-redis asks for when it writes the command. Hooks and cluster clients ask before that: then the command counts as sent too early,
// and its outcome as unknown where it is known that it was not sent.
func (c *command) Args() []any {
	c.written.Store(true)
	return c.Cmd.Args()
}

// outcome is what came of the command. A nil reply is no error.
func (c *command) outcome() (any, error) {
	err := c.Err()
	if err == goredis.Nil {
		err = nil
	}
	return c.Val(), err
}

// sent says whether the server may have run the command, or may yet, after err.
func (c *command) sent(err error) bool { return c.written.Load() && !beforeSending(err) }
