package redisscript

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
)

const narrowACL = "the user's ACL is too narrow: the page of the Redis backend has a sufficient one"

// replyClasses maps the prefixes of Redis' error replies, without "ERR ", to classes. A script sets the lock as its last step, so one that
// returns such an error has granted nothing, unless the class is ErrUnknown.
var replyClasses = []struct {
	prefix string
	class  error
	hint   string
}{
	{"WRONGPASS", driver.ErrRefused, "wrong user name or password"},
	{"NOAUTH", driver.ErrRefused, "a password is needed"},
	{"NOPERM", driver.ErrRefused, narrowACL},
	{"The user executing the script can't run", driver.ErrRefused, narrowACL},
	{"ACL failure in script", driver.ErrRefused, narrowACL}, // Redis 8
	{"invalid password", driver.ErrRefused, "wrong password"},
	{"max number of clients", driver.ErrUnavailable, "too many connections: raise maxclients"},
	{"This instance has cluster support disabled", driver.ErrRefused, "this is not a Redis Cluster node: use redis://"},
	{string(goredis.Nil), driver.ErrUnavailable, "the sentinels do not know the master: check master_name"}, // no script call returns Nil as an error
	{"OOM", driver.ErrUnavailable, "Redis is out of memory: raise maxmemory or free memory"},
	{"MISCONF", driver.ErrUnavailable, "Redis refuses writes because it cannot save them: see its log and disk"},
	{"LOADING", driver.ErrUnavailable, "Redis is still loading its data"},
	{"MASTERDOWN", driver.ErrUnavailable, "this replica has lost its master"},
	{"CLUSTERDOWN", driver.ErrUnavailable, "the Redis Cluster is down"},
	{"TRYAGAIN", driver.ErrUnavailable, "the slot is being moved"},
	{"MOVED", driver.ErrUnavailable, "the slot is on another node: it has just moved, or the client is not one of a Cluster (redis+cluster://), or its user may not send ASKING"},
	{"ASK", driver.ErrUnavailable, "the slot is being moved"},
	{"READONLY", driver.ErrUnavailable, "this is a read-only replica"},
	{"NOREPLICAS", driver.ErrUnavailable, "too few replicas are connected (min-replicas-to-write)"},
	{"BUSY", driver.ErrUnavailable, "another client's script blocks Redis"},
	{"Script killed", driver.ErrUnavailable, "somebody ended the script"}, // SCRIPT KILL ends only scripts that have written nothing
	// A script met a key that it had deleted, in a slot that is being moved: half of it may be done. The second text is that of Redis 6.
	{"Script attempted to access a non local key", driver.ErrUnknown, "the slot is being moved"},
	{"Lua script attempted to access a non local key", driver.ErrUnknown, "the slot is being moved"},
}

// Classify wraps err, which came from go-redis, in its error class of package driver. sent: the request may have reached a server that
// runs it, unless err says that there was no connection.
func Classify(err error, sent bool) error {
	if err == nil || errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrRefused) || errors.Is(err, driver.ErrUnknown) {
		return err
	}
	err = driver.OneLine(err)
	if reply, ok := errors.AsType[goredis.Error](err); ok {
		text := scriptError(reply.Error())
		for _, c := range replyClasses {
			if strings.HasPrefix(text, c.prefix) {
				return fmt.Errorf("%w: %s (%w)", c.class, c.hint, err)
			}
		}
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain || lockurl.BadCertificate(err) { // reached, but without TLS or trust
		return fmt.Errorf("%w: TLS: %w", driver.ErrRefused, err)
	}
	switch dial, ok := errors.AsType[*net.OpError](err); {
	case ok && dial.Op == "dial":
		return fmt.Errorf("%w: Redis cannot be reached: is it running, and is the address right? (%w)", driver.ErrUnavailable, driver.OneLine(dial))
	case !sent, errors.Is(err, goredis.ErrPoolTimeout), errors.Is(err, goredis.ErrPoolExhausted), errors.Is(err, goredis.ErrClosed):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnknown, err)
}

// Explain classifies an error of a request to addr that changes nothing, so its outcome is never unknown, and says what is likely if no Redis answers.
func Explain(addr string, err error) error {
	err = Classify(err, true)
	reply, answered := errors.AsType[goredis.Error](err)
	network, broken := errors.AsType[net.Error](err)
	switch {
	case !errors.Is(err, driver.ErrUnknown): // an answer, or no connection
		return err
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, context.Canceled)
	case answered:
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, reply)
	case broken && network.Timeout():
		return fmt.Errorf("%w: %s does not answer: is it a Redis server, and do both sides agree on TLS? (%w)", driver.ErrUnavailable, addr, network)
	case broken, errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %s closed the connection: is it a Redis server below its maxclients, and do both sides agree on TLS?", driver.ErrUnavailable, addr)
	}
	return fmt.Errorf("%w: is %s a Redis server? (%.150s)", driver.ErrUnavailable, addr, strings.TrimPrefix(err.Error(), driver.ErrUnknown.Error()+": "))
}

// scriptError strips "ERR ", and the frames that Redis 6 puts around the error of a command in a script: one if the script returns the
// error, two if it raises it.
func scriptError(text string) string {
	for strings.HasPrefix(text, "ERR Error running script") || strings.HasPrefix(text, "@user_script") {
		_, text, _ = strings.Cut(text, "@user_script:")
		_, text, _ = strings.Cut(text, ": ")
		text = strings.TrimPrefix(text, "-")
	}
	return strings.TrimPrefix(text, "ERR ")
}

// ReplyError is an error reply that a script returned as text.
type ReplyError string

// Error implements error.
func (e ReplyError) Error() string { return string(e) }

// RedisError makes it a goredis.Error.
func (ReplyError) RedisError() {}

// contextErr is the error of a call whose context ended, with cause, before the reply.
func contextErr(cause error, sent bool) error {
	return Classify(fmt.Errorf("waiting for Redis: %w", cause), sent)
}

// withContextErr adds ctx's error to err if ctx has ended. A socket deadline taken from ctx may fire before ctx's own timer.
func withContextErr(ctx context.Context, err error) error {
	if err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return err
	}
	if end, limited := ctx.Deadline(); limited && ctx.Done() != nil && !time.Now().Before(end) {
		<-ctx.Done()
	}
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w: %w", err, ctx.Err())
}

// isNoScript reports that the server does not know the script's SHA and so has not run it.
func isNoScript(err error) bool { return err != nil && goredis.HasErrorPrefix(err, "NOSCRIPT") }
