package redisscript

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"

	goredis "github.com/redis/go-redis/v9"
)

// Script is a Lua script.
type Script struct {
	source string
	sha    string
	acks   bool    // waits for replicas, if the pipe is configured to
	batch  *Script // does the same for many locks; nil: none
	other  *Script // see Beside
}

// durable makes calls of s wait for replicas.
func (s *Script) durable() *Script {
	s.acks = true
	return s
}

// batched sets the script that does for many locks what s does for one.
func (s *Script) batched(batch *Script) *Script {
	s.batch, batch.acks = batch, s.acks
	return s
}

// beside sets the script that Beside returns.
func (s *Script) beside(other *Script) *Script {
	s.other = other
	return s
}

// Beside returns the script that does for readers and permits what s does for an exclusive claim.
func (s *Script) Beside() *Script { return s.other }

// NewScript makes a script from its source.
func NewScript(source string) *Script {
	sum := sha1.Sum([]byte(source)) // Redis identifies a script by its SHA-1
	return &Script{source: source, sha: hex.EncodeToString(sum[:])}
}

// Call returns the EVALSHA arguments of a call of s.
func (s *Script) Call(keys []string, argv ...any) []any {
	args := append(make([]any, 0, 3+len(keys)+len(argv)), "evalsha", s.sha, len(keys))
	for _, k := range keys {
		args = append(args, k)
	}
	return append(args, argv...)
}

// withSource returns args as an EVAL call with the source, for a server that does not know s yet.
func (s *Script) withSource(args []any) []any {
	full := append([]any(nil), args...)
	full[0], full[1] = "eval", s.source
	return full
}

// Names reports whether request, an encoded command, calls s or one of its variants for many locks or beside others.
func (s *Script) Names(request []byte) bool {
	return s.batch != nil && s.batch.Names(request) || s.other != nil && s.other.Names(request) ||
		bytes.Contains(request, []byte(s.sha)) || bytes.Contains(request, []byte(s.source))
}

// command is a script call that go-redis must not send twice.
type command struct{ *goredis.Cmd }

func newCommand(args []any) *command {
	c := &command{goredis.NewCmd(context.Background(), args...)}
	if len(args) > 3 {
		c.SetFirstKeyPos(3) // a cluster client finds the node by it
	}
	return c
}

// NoRetry tells go-redis not to resend the command after an error.
func (*command) NoRetry() bool { return true }

// outcome returns the command's reply. A nil reply is not an error.
func (c *command) outcome() (any, error) {
	err := c.Err()
	if err == goredis.Nil {
		err = nil
	}
	return c.Val(), err
}
