package articles

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/driver"
)

// sessionTTL is the FixedTTL of locks that end with a session. It is the smallest TTL that etcd grants by default.
const sessionTTL = 2 * time.Second

// session is a connection to a server, or another kind of session.
type session struct {
	// lock tries to lock a name; ErrHeld if it is held. unlock unlocks it as the library does, even after lock returned an error.
	lock func(ctx context.Context, name string) (unlock func(context.Context) error, err error)
	// end ends the session and with it all of its locks. It may be called again.
	end func(ctx context.Context) error
}

// inSessions returns a lock with one session for each claim, or one session that all claims share.
func inSessions(caps driver.Capabilities, shared bool, open func(context.Context) (session, error), closeAll func() error) driver.Backend {
	var mu sync.Mutex
	var one *session
	begin := func(ctx context.Context) (session, error) {
		mu.Lock()
		defer mu.Unlock()
		if one == nil || !shared {
			s, err := open(ctx)
			if err != nil {
				return session{}, fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
			}
			one = &s
		}
		return *one, nil
	}
	return library.Driver(caps, library.Client{Close: closeAll, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		s, err := begin(ctx)
		if err != nil {
			return nil, err
		}
		unlock, err := s.lock(ctx, digest(c.Name))
		undo := s.end
		if shared { // a shared session must not end, so unlock must suffice
			undo = func(context.Context) error { return nil }
		}
		switch {
		case errors.Is(err, driver.ErrHeld):
			_ = undo(ctx)
			return nil, err
		case unlock == nil || err != nil && !shared: // ending the session suffices
			unlock = func(context.Context) error { return nil }
		}
		var mu sync.Mutex
		over := false
		return &library.Hold{Abort: func() { _ = undo(context.Background()) }, Release: func(ctx context.Context) (err error) {
			mu.Lock()
			defer mu.Unlock()
			if over {
				return nil
			}
			if err = unlock(ctx); err == nil {
				err = undo(ctx)
			}
			over = err == nil
			return err
		}}, err
	}})
}

// digest returns a name as the servers see it: the 64 hexadecimal digits of its SHA-256.
func digest(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])
}

// unless returns err, or nil if it matches nothing, which means that there was nothing to do.
func unless(err, nothing error) error {
	if errors.Is(err, nothing) {
		return nil
	}
	return err
}
