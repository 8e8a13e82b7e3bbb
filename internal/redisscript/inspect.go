package redisscript

import (
	"context"
	"fmt"
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

// Inspected converts the reply of the script Inspect. It reports that readers hold a lock, but not which.
func Inspected(r Reply) (st driver.Status, err error) {
	if r.Err != nil {
		return st, r.Err
	}
	reply, _ := r.Value.([]any)
	if len(reply) != 4 {
		return st, fmt.Errorf("%w: the script replied %v", driver.ErrUnknown, r.Value)
	}
	ttl, ok1 := reply[2].(int64)
	waiting, ok2 := reply[3].(int64)
	if !ok1 || !ok2 {
		return st, fmt.Errorf("%w: the script replied %v", driver.ErrUnknown, r.Value)
	}
	st.Waiters = int(waiting)
	switch reply[0] {
	case "none":
		return st, nil
	case "string":
		value, _ := reply[1].(string)
		if st.Shared = value == Readers; !st.Shared {
			st.Owner, st.Foreign = Owner(value)
		}
	default:
		st.Owner, st.Foreign = NotAString, true
	}
	st.Held = true
	if ttl >= 0 {
		st.Expires = time.Now().Add(time.Duration(ttl) * time.Millisecond)
	}
	return st, nil
}

const scanCount = 1000 // keys per request that Redis looks at

// ScanLocks calls found for each key on node that matches pattern, and for each such key that has the side key queue.
func ScanLocks(ctx context.Context, node goredis.Cmdable, pattern, queue string, found func(key string)) error {
	if err := scanKeys(ctx, node, pattern, found); err != nil {
		return err
	}
	return ScanSides(ctx, node, pattern, queue, found)
}

// ScanSides calls found for each key that matches pattern and has a side key for the purpose what on node.
func ScanSides(ctx context.Context, node goredis.Cmdable, pattern, what string, found func(key string)) error {
	return scanKeys(ctx, node, Side(pattern, what), func(side string) {
		if key, ok := SideOf(side, what); ok {
			found(key)
		}
	})
}

func scanKeys(ctx context.Context, node goredis.Cmdable, pattern string, found func(key string)) error {
	for cursor := uint64(0); ; {
		keys, next, err := node.Scan(ctx, cursor, pattern, scanCount).Result()
		if err != nil {
			return err
		}
		for _, key := range keys {
			found(key)
		}
		if cursor = next; cursor == 0 {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
