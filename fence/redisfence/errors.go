package redisfence

import (
	"errors"
	"fmt"
	"strings"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/internal/fencecheck"
	"github.com/lockport/lockport/internal/redisscript"
)

// What our part of a script replies instead of running the rest.
const (
	staleReply = "LOCKPORTFENCE " // and what is registered, noToken, or nothing
	lostReply  = "LOCKPORTLOCK "
	noToken    = "?"
)

// explain makes the error of a request of err, which came from go-redis. Error replies of the caller's own script pass unchanged.
func (g *Guard) explain(did string, sent bool, err error) error {
	var reply goredis.Error
	isReply := errors.As(err, &reply)
	seen, isStale := strings.CutPrefix(err.Error(), staleReply)
	switch {
	case isReply && isStale:
		return g.refused(seen)
	case isReply && strings.HasPrefix(err.Error(), lostReply):
		return g.lost()
	case errors.Is(err, goredis.Nil):
		return err
	case otherSlot(err):
		return fmt.Errorf("redisfence: %s at %q: in a Cluster all keys need the hash tag of the fence's key: %w", did, g.fence.key, err)
	case isReply && strings.HasPrefix(err.Error(), "WRONGTYPE") && did == "register":
		return g.refused(noToken)
	case isReply:
		return fmt.Errorf("redisfence: %s at %q: %w", did, g.fence.key, err)
	}
	return fmt.Errorf("redisfence: %s at %q: %w", did, g.fence.key, redisscript.Classify(err, sent))
}

// otherSlot reports that a key is on another node of a Cluster than the fence: Redis says so, or go-redis before it asks.
func otherSlot(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "CROSSSLOT") || strings.HasPrefix(text, "MOVED") || strings.Contains(text, "non local key") ||
		strings.Contains(text, "keys to be in the same slot")
}

// refused is the error of a token that is not the registered one, which is seen.
func (g *Guard) refused(seen string) error {
	return fmt.Errorf("redisfence: %w", fencecheck.Refuse(g.fence.key, g.token, seen))
}

// lost is the error of a lock whose key is gone.
func (g *Guard) lost() error { return fmt.Errorf("redisfence: %w", fencecheck.Lost(g.lock.Key)) }
