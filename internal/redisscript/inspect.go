package redisscript

import (
	"context"
	"math"
	"slices"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// NotAString is the owner that Inspect reports for a key of another type, such as a Redisson lock, which is a hash.
const NotAString = "(a foreign value that is not a string)"

// ValuesOf returns the values that a lock may have if Inspect reports owner; "" means one that is not a string.
func ValuesOf(owner string) []string {
	if owner == NotAString {
		return []string{""}
	}
	return []string{Value(owner), owner}
}

// Inspected converts the reply of the script Inspect for name: the status of its lock and, if the script had the keys of readers and permits, that of
// its permits. Without these keys it reports that readers hold the lock, but not which.
func Inspected(name string, r Reply) (lock, permits driver.Status, err error) {
	lock.Name, permits.Name = name, name
	reply, _ := r.Value.([]any)
	var ofLock, ofPermits [2]int64
	whole := len(reply) == 4 || len(reply) == 8 && numbers(ofPermits[:], reply[5:])
	if r.Err == nil && !(whole && numbers(ofLock[:], reply[2:])) {
		r.Err = r.Unexpected()
	}
	if r.Err != nil {
		return lock, permits, r.Err
	}
	value, isString := reply[1].(string)
	lock.Waiters, lock.Held = int(ofLock[1]), reply[0] != "none"
	switch {
	case !lock.Held:
	case value == Readers:
		lock.Shared = true
	case isString:
		lock.Owner, lock.Foreign = Owner(value)
	default:
		lock.Owner, lock.Foreign = NotAString, true
	}
	if ttl := ofLock[0]; ttl >= 0 {
		lock.Expires = expiry(ttl)
	}
	if len(reply) == 8 {
		if lock.Shared {
			lock = heldBy(lock, reply[4])
		}
		permits.Waiters, permits.Permits = int(ofPermits[0]), int(ofPermits[1])
		permits = heldBy(permits, reply[7])
	}
	return lock, permits, nil
}

func expiry(ms int64) time.Time { return time.Now().Add(Duration(ms)) }

// Duration is ms milliseconds, or the longest duration if that is less: a foreign client's key may last longer.
func Duration(ms int64) time.Duration {
	return time.Duration(min(ms, int64(math.MaxInt64/time.Millisecond))) * time.Millisecond
}

// heldBy returns st with its holders: the first one, and the rest as Others. holders lists each owner, followed by the ms until it expires.
func heldBy(st driver.Status, holders any) driver.Status {
	list, _ := holders.([]any)
	if len(list) < 2 {
		return driver.Status{Name: st.Name, Waiters: st.Waiters}
	}
	var all []driver.Status
	for holder := range slices.Chunk(list[:len(list)/2*2], 2) {
		st.Held = true
		st.Owner, _ = holder[0].(string)
		ms, _ := holder[1].(int64)
		st.Expires = expiry(ms)
		all = append(all, st)
	}
	all[0].Others = all[1:]
	return all[0]
}

const scanCount = 1000 // keys per request that Redis looks at

// Scan calls found for each name that starts with prefix and has a lock or a side key on node: perhaps several times.
func (l Layout) Scan(ctx context.Context, node goredis.Cmdable, prefix string, found func(name string)) error {
	locks := GlobEscape(l.Key(prefix)) + "*" // it may match side keys of other names too
	for _, pattern := range []string{locks, Side(locks, "*")} {
		keys := node.Scan(ctx, 0, pattern, scanCount).Iterator()
		for keys.Next(ctx) {
			if name, ok := l.Name(LockOf(keys.Val())); ok && strings.HasPrefix(name, prefix) {
				found(name)
			}
		}
		if err := keys.Err(); err != nil {
			return err
		}
	}
	return nil
}
