package redisscript

import (
	"bytes"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// Script is a Lua script.
type Script struct {
	// Beside does for readers and permits what the script does for an exclusive claim; nil: none.
	Beside *Script

	source string
	sha    string
	keys   int     // how many of a lock's keys it takes; 0: all
	acks   bool    // waits for replicas, if the pipe is configured to
	batch  *Script // does the same for many locks; nil: none
}

// NewScript makes a script from its source.
func NewScript(source string) *Script { return Script{}.from(source) }

// from returns s with the source.
func (s Script) from(source string) *Script {
	sum := sha1.Sum([]byte(source)) // Redis identifies a script by its SHA-1
	s.source, s.sha = source, hex.EncodeToString(sum[:])
	return &s
}

// Call is a call of a script.
type Call struct {
	script *Script
	args   []any // of EVALSHA

	deadline time.Time // of the caller's context; zero: none
}

// Call makes a call of s. It leaves out those of the lock's keys that s does not use.
func (s *Script) Call(keys []string, argv ...any) Call {
	if s.keys > 0 {
		keys = keys[:s.keys]
	}
	args := append(make([]any, 0, 3+len(keys)+len(argv)), "evalsha", s.sha, len(keys))
	for _, k := range keys {
		args = append(args, k)
	}
	return Call{script: s, args: append(args, argv...)}
}

// withSource returns the arguments of c as an EVAL with the source, for a server that does not know the script yet.
func (c Call) withSource() []any {
	full := slices.Clone(c.args)
	full[0], full[1] = "eval", c.script.source
	return full
}

// Names reports whether request, an encoded command, calls s or one of its variants for many locks or beside others.
func (s *Script) Names(request []byte) bool {
	return s.batch != nil && s.batch.Names(request) || s.Beside != nil && s.Beside.Names(request) ||
		bytes.Contains(request, []byte(s.sha)) || bytes.Contains(request, []byte(s.source))
}

// command is a script call that go-redis must not send twice after an error. It keeps its own error: a ClusterClient sends a command again after
// MOVED, ASK or a failed dial, and keeps the error of that attempt if the next one is sent and not answered.
type command struct {
	*goredis.Cmd
	err  error
	sent atomic.Bool // or may have been, by any attempt
}

func newCommand(args []any) *command {
	return &command{Cmd: goredis.NewCmd(context.Background(), args...)}
}

// Args notes that the command may be sent. go-redis encodes what Args returns, once it has a connection, so without a call of Args nothing was sent.
// Hooks and a Cluster's routing call it earlier: such a command counts as sent. If another version of go-redis encoded otherwise, the suite's cases
// that drop a reply would fail.
func (c *command) Args() []any {
	c.sent.Store(true)
	return c.Cmd.Args()
}

// SetErr replaces the error of an earlier attempt. A reply is final. go-redis also sets nil where it sees no error, which erases none.
func (c *command) SetErr(err error) {
	if c.Val() != nil {
		c.err = nil
	} else if err != nil {
		c.err = err
	}
	// go-redis drops a connection to a demoted master if a pipeline's first command has this error. It does not make another attempt, whose error this
	// one would hide.
	if goredis.IsReadOnlyError(err) {
		c.Cmd.SetErr(err)
	}
}

// Err returns the error of the last attempt.
func (c *command) Err() error { return c.err }

// NoRetry tells go-redis not to resend the command after an error.
func (*command) NoRetry() bool { return true }

// outcome returns the command's reply, or its classified error. A nil reply is not an error; for go-redis it is one, Nil. If there is neither reply
// nor error, a hook did not send the command, or swallowed its error.
func (c *command) outcome() (any, error) {
	switch err := c.Err(); {
	case err != nil && err != goredis.Nil:
		return nil, Classify(err, c.sent.Load())
	case err == nil && c.Val() == nil:
		return nil, fmt.Errorf("%w: the client returned neither a reply nor an error", driver.ErrUnknown)
	}
	return c.Val(), nil
}
