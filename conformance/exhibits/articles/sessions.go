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

// sessionTTL is stated by the locks that end with a session. It is the smallest that an etcd grants at its defaults.
const sessionTTL = 2 * time.Second

// session is a connection to a server, or what else the server remembers a client by.
type session struct {
	// lock tries to lock a name; ErrHeld if somebody else has it. unlock unlocks it as the library does, also if lock returned an error.
	lock func(ctx context.Context, name string) (unlock func(context.Context) error, err error)
	// end ends the session, and with it all that it has locked. It can be called again.
	end func(ctx context.Context) error
}

// inSessions is a lock with a session for each claim, or one that all claims share.
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
		if shared { // a session that others use too is not ended: unlock must do
			undo = func(context.Context) error { return nil }
		}
		switch {
		case errors.Is(err, driver.ErrHeld):
			_ = undo(ctx)
			return nil, err
		case unlock == nil || err != nil && !shared: // the end of the session is enough
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
