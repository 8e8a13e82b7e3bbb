package libraries

import (
	"bytes"
	"context"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// The scripts of the lock on one Redis. A comment in each tells its requests from the others'.
const (
	// The claim of who holds already is granted again, prolonged. The token is above the last one and above the clock.
	takeScript = `-- take
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if not owner then
	local now = redis.call('TIME')
	local token = math.max((tonumber(redis.call('GET', KEYS[2])) or 0) + 1, now[1] * 1000000 + now[2])
	redis.call('SET', KEYS[2], string.format('%.0f', token))
end
return tonumber(redis.call('GET', KEYS[2]))`

	renewScript = `-- renew
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`

	freeScript = `-- free
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])`
)

// redisLock is a lock on one Redis.
type redisLock struct {
	lock
	client *goredis.Client
}

// redisOptions are those of a client that asks once, and no longer than its context allows.
func redisOptions(addr string) *goredis.Options {
	return &goredis.Options{Addr: addr, Protocol: 2, DisableIdentity: true, MaxRetries: -1, ContextTimeoutEnabled: true}
}

func newRedis(o *goredis.Options) *redisLock {
	client := goredis.NewClient(o)
	l := &redisLock{client: client}
	l.caps = driver.Capabilities{Backend: "redis", Ends: driver.EndsTTL, Token: driver.TokenFailover, TTLGrain: time.Millisecond}
	l.take, l.renew, l.release, l.close = l.set, l.prolong, l.free, client.Close
	l.abandon = func(ctx context.Context, req driver.Request) error {
		_, err := l.eval(ctx, freeScript, req)
		return unknown(err)
	}
	return l
}

// onRedis opens the lock with what spoil changes.
func onRedis(spoil func(*redisLock)) opener {
	return func(_ context.Context, target string) (driver.Backend, error) {
		l := newRedis(redisOptions(target))
		spoil(l)
		return l, nil
	}
}

func redisKey(name string) string { return "libraries:" + Digest(name) }

// eval runs a script, which returns a number.
func (l *redisLock) eval(ctx context.Context, script string, req driver.Request) (int64, error) {
	key := redisKey(req.Name)
	return l.client.Eval(ctx, script, []string{key, key + ":token"}, req.Owner, req.TTL.Milliseconds()).Int64()
}

func (l *redisLock) set(ctx context.Context, req driver.Request) (*claim, error) {
	sent := time.Now()
	token, err := l.eval(ctx, takeScript, req)
	switch {
	case err != nil:
		return nil, unknown(err)
	case token == 0:
		return nil, driver.ErrHeld
	}
	return &claim{grant: driver.Grant{Token: uint64(token), Until: sent.Add(req.TTL)}}, nil
}

func (l *redisLock) prolong(ctx context.Context, c *claim) (time.Time, error) {
	sent := time.Now()
	n, err := l.eval(ctx, renewScript, c.req)
	switch {
	case err != nil:
		return time.Time{}, unknown(err)
	case n == 0:
		return time.Time{}, driver.ErrLost
	}
	return sent.Add(c.req.TTL), nil
}

func (l *redisLock) free(ctx context.Context, c *claim) error {
	n, err := l.eval(ctx, freeScript, c.req)
	switch {
	case err != nil:
		return unknown(err)
	case n == 0:
		return driver.ErrLost
	}
	return nil
}

// isRedisOp knows the scripts, and SET with NX.
func isRedisOp(op conformance.Op, request []byte) bool {
	mark := map[conformance.Op]string{conformance.OpAcquire: "-- take", conformance.OpRenew: "-- renew", conformance.OpRelease: "-- free"}[op]
	return bytes.Contains(request, []byte(mark)) || op == conformance.OpAcquire && bytes.HasSuffix(bytes.ToLower(request), []byte("\r\nnx\r\n"))
}

// drift is what redlock-py allows for the clocks of the nodes.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }

// held is ErrHeld, unless the claim was granted.
func held(granted bool, err error) error {
	switch {
	case err != nil:
		return unknown(err)
	case !granted:
		return driver.ErrHeld
	}
	return nil
}
