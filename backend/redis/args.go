package redis

import (
	"strconv"
	"time"

	"github.com/lockport/lockport/internal/redisscript"
)

// keys are the keys of a name.
type keys struct {
	lock, queue, token string
}

func makeKeys(lock string) keys {
	return keys{lock: lock, queue: redisscript.Side(lock, queueKey), token: redisscript.Side(lock, tokenKey)}
}

// What the side keys are for.
const (
	queueKey = "queue"
	tokenKey = "token"
)

var two, three any = "2", "3"

// args are the arguments of a call of a script with all keys. Strings are given as pointers, so that they are not copied.
func (k *keys) args(s *redisscript.Script, argv ...any) []any {
	return append(append(s.Args(4+len(argv)), three, &k.lock, &k.queue, &k.token), argv...)
}

// What goes to the server of a claim. It is put together of the name and the owner id while it is written, since a held lock that kept it would be half
// as large again. Each is the claim itself under another type, so that it makes an argument without an allocation.
type (
	lockOf  claim // the lock's key
	queueOf claim
	tokenOf claim
	valueOf claim // of the lock
	ttlOf   claim // in ms, rounded up
)

// Append implements redisscript.Text, as do those that follow.
func (c *lockOf) Append(b []byte) []byte { return c.b.layout.AppendKey(b, c.Req.Name) }

func (c *queueOf) Append(b []byte) []byte { return c.b.layout.AppendSide(b, c.Req.Name, queueKey) }

func (c *tokenOf) Append(b []byte) []byte { return c.b.layout.AppendSide(b, c.Req.Name, tokenKey) }

func (c *valueOf) Append(b []byte) []byte { return redisscript.AppendValue(b, c.Req.Owner) }

func (c *ttlOf) Append(b []byte) []byte {
	return strconv.AppendInt(b, int64((c.Req.TTL+time.Millisecond-1)/time.Millisecond), 10)
}

// args are the arguments of a call of a script with all keys of the claim.
func (c *claim) args(s *redisscript.Script, argv ...any) []any {
	return append(append(s.Args(4+len(argv)), three, (*lockOf)(c), (*queueOf)(c), (*tokenOf)(c)), argv...)
}

// releaseArgs are the arguments of a call of the script that releases the claim.
func (c *claim) releaseArgs() []any {
	return append(redisscript.Release.Args(4), two, (*lockOf)(c), (*queueOf)(c), (*valueOf)(c))
}

var flagYes, flagNo any = "1", "0"

func queueFlag(yes bool) any {
	if yes {
		return flagYes
	}
	return flagNo
}
