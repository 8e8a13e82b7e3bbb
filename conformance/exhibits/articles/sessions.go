package articles

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// sessionTTL is stated by the locks that end with a session. It is the smallest that an etcd grants at its defaults.
const sessionTTL = 2 * time.Second

// session is a connection to a server, or what else the server remembers a client by.
type session struct {
	// lock tries to lock a name; ErrHeld if somebody else has it. unlock unlocks it as the library does, also if lock returned an error.
	lock func(ctx context.Context, name string) (unlock func(context.Context) error, token uint64, err error)
	// end ends the session, and with it all that it has locked. It can be called again.
	end func(ctx context.Context) error
}

// hold is what a session has locked for a claim, perhaps.
type hold struct {
	session
	unlock func(context.Context) error
	mu     sync.Mutex
	over   bool // it was certainly released
}

// inSessions is a lock with a session for each claim, or one that all claims share.
func inSessions(caps driver.Capabilities, shared bool, open func(context.Context) (session, error), closeAll func() error) *lock {
	var mu sync.Mutex
	var one *session
	holds := make(map[string]*hold) // by owner
	begin := func(ctx context.Context, owner string) (*hold, error) {
		mu.Lock()
		defer mu.Unlock()
		if one == nil || !shared {
			s, err := open(ctx)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
			}
			one = &s
		}
		holds[owner] = &hold{session: *one}
		return holds[owner], nil
	}
	find := func(owner string) *hold {
		mu.Lock()
		defer mu.Unlock()
		return holds[owner]
	}
	l := &lock{
		caps: caps, key: digest, value: func(owner string) string { return owner },
		valid: func(time.Time, time.Duration) (time.Time, bool) { return time.Time{}, true },
		prolong: func(context.Context, *claim) (bool, error) {
			return false, errors.New("a claim that ends with its session is not renewed")
		},
	}
	l.take = func(ctx context.Context, c *claim) (bool, error) {
		h, err := begin(ctx, c.owner)
		if err != nil {
			return false, err
		}
		h.unlock, c.grant.Token, err = h.lock(ctx, c.key)
		if !errors.Is(err, driver.ErrHeld) {
			return err == nil, err
		}
		if !shared {
			_ = h.end(ctx)
		}
		return false, nil
	}
	l.give = func(ctx context.Context, c *claim) (bool, error) {
		h := find(c.owner)
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.over {
			return true, nil
		}
		err := h.unlock(ctx)
		if err == nil && !shared {
			err = h.end(ctx)
		}
		h.over = err == nil
		return h.over, err
	}
	// A session that others use too is not ended: unlock must do.
	l.undo = func(ctx context.Context, c *claim) (_ bool, err error) {
		switch h := find(c.owner); {
		case h == nil:
		case !shared:
			err = h.end(ctx)
		case h.unlock != nil:
			err = h.unlock(ctx)
		}
		return err == nil, err
	}
	l.close = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), sessionTTL)
		defer cancel()
		for _, h := range holds {
			_ = h.end(ctx)
		}
		return closeAll()
	}
	return l
}

// digest is what the servers call a name: the 64 hexadecimal digits of its SHA-256.
func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// unless is err, and nil for the one that says that there is nothing left to do.
func unless(err, nothing error) error {
	if errors.Is(err, nothing) {
		return nil
	}
	return err
}
