package redisscript

import (
	"context"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// NotAString is the owner that Inspect gives of a key of another type: Redisson's locks are hashes.
const NotAString = "(a foreign value that is no string)"

// ValuesOf are the values that a lock may have that Inspect says is owner's; "" stands for one that is no string.
func ValuesOf(owner string) []string {
	if owner == NotAString {
		return []string{""}
	}
	return []string{Value(owner), owner}
}

// Inspected makes a status of what the script Inspect replied. Of a lock that readers hold it says so, and not who they are.
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

const scanCount = 1000 // keys that Redis looks at for one request

// ScanLocks finds the keys on node that match pattern, and those whose queue, a side key for queue, there is.
func ScanLocks(ctx context.Context, node goredis.Cmdable, pattern, queue string, found func(key string)) error {
	if err := scanKeys(ctx, node, pattern, found); err != nil {
		return err
	}
	return ScanSides(ctx, node, pattern, queue, found)
}

// ScanSides finds the keys that match pattern of which there is a side key on node for the purpose what.
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
