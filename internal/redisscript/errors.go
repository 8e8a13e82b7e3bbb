package redisscript

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// replyClasses says what the error replies of Redis mean, by how they begin. In none of these cases has a script run that makes its
// grant last.
var replyClasses = []struct {
	prefix string
	class  error
	hint   string
}{
	{"WRONGPASS", driver.ErrRefused, "wrong user name or password"},
	{"NOAUTH", driver.ErrRefused, "a password is needed"},
	{"NOPERM", driver.ErrRefused, "the user's ACL is too narrow, see the page of the Redis backend for one that suffices"},
	{"ERR invalid password", driver.ErrRefused, "wrong password"},
	{"ERR max number of clients", driver.ErrUnavailable, "too many connections: raise maxclients"},
	{"ERR This instance has cluster support disabled", driver.ErrRefused, "this is no node of a Redis Cluster: use redis://"},
	{"OOM", driver.ErrUnavailable, "Redis is out of memory: raise maxmemory or free memory"},
	{"MISCONF", driver.ErrUnavailable, "Redis refuses writes because it cannot save them: see its log and disk"},
	{"LOADING", driver.ErrUnavailable, "Redis is still loading its data"},
	{"MASTERDOWN", driver.ErrUnavailable, "this replica has lost its master"},
	{"CLUSTERDOWN", driver.ErrUnavailable, "the Redis Cluster is down"},
	{"TRYAGAIN", driver.ErrUnavailable, "the slot is being moved"},
	{"MOVED", driver.ErrUnavailable, "the slot is on another node: with a Redis Cluster use redis+cluster://"},
	{"ASK", driver.ErrUnavailable, "the slot is being moved"},
	{"READONLY", driver.ErrUnavailable, "this is a read-only replica"},
	{"NOREPLICAS", driver.ErrUnavailable, "too few replicas are connected (min-replicas-to-write)"},
	{"BUSY", driver.ErrUnavailable, "a script of somebody else blocks Redis"},
}

// Classify wraps err, which came from go-redis, in the class that it has by the contract of package driver. sent says
// whether anything may have reached a server that carries it out.
func Classify(err error, sent bool) error {
	if err == nil {
		return nil
	}
	for _, class := range []error{driver.ErrUnavailable, driver.ErrRefused, driver.ErrUnknown} {
		if errors.Is(err, class) {
			return err
		}
	}
	var reply goredis.Error
	if errors.As(err, &reply) {
		text := scriptError(reply.Error())
		for _, c := range replyClasses {
			if strings.HasPrefix(text, c.prefix) {
				return fmt.Errorf("%w: %s (%w)", c.class, c.hint, err)
			}
		}
		return fmt.Errorf("%w: %w", driver.ErrRefused, err)
	}
	if certificateError(err) {
		return fmt.Errorf("%w: TLS: %w", driver.ErrRefused, err)
	}
	if sent {
		return fmt.Errorf("%w: %w", driver.ErrUnknown, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}

// scriptError is what a command in a script said, without the frames that Redis 6 puts around it: one where the script passes the error on, two where
// the error ends it.
func scriptError(text string) string {
	for strings.HasPrefix(text, "ERR Error running script") || strings.HasPrefix(text, "@user_script") {
		_, rest, ok := strings.Cut(text, "@user_script:")
		if ok {
			_, rest, ok = strings.Cut(rest, ": ")
		}
		if !ok {
			break
		}
		text = strings.TrimPrefix(rest, "-")
	}
	return text
}

// ReplyError is an error reply that a script passed on as text.
type ReplyError string

// Error implements error.
func (e ReplyError) Error() string { return string(e) }

// RedisError makes it a goredis.Error.
func (ReplyError) RedisError() {}

// certificateError says that the server was reached and is not to be trusted, or does not speak TLS.
func certificateError(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		alert        tls.AlertError
	)
	return errors.As(err, &verification) || errors.As(err, &record) || errors.As(err, &authority) || errors.As(err, &hostname) ||
		errors.As(err, &alert)
}

// ended is the error of a call whose context ended, with cause, before its reply came.
func ended(cause error, sent bool) error {
	return Classify(fmt.Errorf("waiting for Redis: %w", cause), sent)
}

// alsoOf adds to err that ctx has ended, if it has. A socket with the deadline of ctx may be quicker than the timer of that.
func alsoOf(ctx context.Context, err error) error {
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

// beforeSending says that err came before anything was written: there was no connection.
func beforeSending(err error) bool {
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, goredis.ErrPoolTimeout) || errors.Is(err, goredis.ErrPoolExhausted) ||
		errors.Is(err, goredis.ErrClosed)
}

// isNoScript says that the server does not know the script by its name, and so has not run it.
func isNoScript(err error) bool { return err != nil && goredis.HasErrorPrefix(err, "NOSCRIPT") }
