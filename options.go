package lockport

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockport/lockport/driver"
)

// DefaultTTL is the TTL if none is given.
const DefaultTTL = 15 * time.Second

// minTTL is the smallest TTL: the safety margin would leave little of a smaller one.
const minTTL = 20 * time.Millisecond

// Option configures a Client.
type Option interface {
	client(*config) error
}

// AcquireOption configures one acquisition.
type AcquireOption interface {
	acquire(*acquisition) error
}

// CommonOption can be given to New and Open, as the default of every acquisition, and to a single acquisition.
type CommonOption interface {
	Option
	AcquireOption
}

// config is the result of New's options.
type config struct {
	acquisition
	label     string
	hideHost  bool
	logger    *slog.Logger
	hooks     []Hooks
	noHandOff bool
	require   []Requirement
}

// newConfig applies opts. A TTL of 0 stands for the default.
func newConfig(opts []Option) (config, error) {
	var cfg config
	for _, o := range opts {
		if o == nil {
			continue
		}
		if err := o.client(&cfg); err != nil {
			return config{}, err
		}
	}
	return cfg, nil
}

// mode is how a hold shares its name.
type mode struct {
	shared  bool  // with others that share it
	permits int32 // if positive, with fewer than this number of others

	attached *ticket // of the detached hold to take over, which has its own queue; nil: none
}

// several reports whether more than one claim of the name may be held at a time.
func (m mode) several() bool { return m.shared || m.permits > 0 }

// acquisition is the result of one Acquire's options. Holds may share a claim if their TTLs and modes are equal.
type acquisition struct {
	mode
	ttl     time.Duration
	maxHold time.Duration
	minHold time.Duration
	reenter bool
	try     bool // it does not wait
}

type clientOption func(*config) error

func (o clientOption) client(c *config) error { return o(c) }

type acquireOption func(*acquisition) error

func (o acquireOption) acquire(a *acquisition) error { return o(a) }

type commonOption func(*acquisition) error

func (o commonOption) client(c *config) error       { return o(&c.acquisition) }
func (o commonOption) acquire(a *acquisition) error { return o(a) }

// TTL bounds how long a lock stays taken if its holder goes silent. Default: DefaultTTL, 15 s. A held lock is renewed after at most a third of it, so
// it bounds the outage, never the work. It is rounded up to the server's unit; a TTL below the backend's smallest is an error. If all locks share a
// session (Postgres, MySQL, ZooKeeper), it is the session's TTL: give it to New or Open, as a multiple of the unit. Another TTL for one acquisition is
// then an error (errors.ErrUnsupported).
func TTL(d time.Duration) CommonOption {
	return commonOption(func(a *acquisition) error {
		switch {
		case d < minTTL:
			return fmt.Errorf("%w: TTL is %v; the smallest is %v", ErrInvalidOption, d, minTTL)
		case d > driver.MaxTTL:
			return fmt.Errorf("%w: TTL is %v; the largest is 73 years", ErrInvalidOption, d)
		}
		a.ttl = d
		return nil
	})
}

// MaxHold ends a hold, as lost with ErrMaxHold, this long after it was acquired. Default: 0, never. It must not be shorter than
// MinHold (ErrInvalidOption).
func MaxHold(d time.Duration) CommonOption {
	return commonOption(func(a *acquisition) error { a.maxHold = d; return notNegative("MaxHold", d) })
}

// MinHold keeps the lock taken for at least this long after it was acquired, even if it is released sooner. So a short job does not run twice on
// machines whose clocks differ. Release returns at once; the client keeps and renews the lock in the background, and Close waits for it. If the
// process dies sooner, the lock becomes free as after any crash. Other callers, even in this process, wait for a kept lock; only readers join readers.
// Default: 0.
func MinHold(d time.Duration) CommonOption {
	return commonOption(func(a *acquisition) error { a.minHold = d; return notNegative("MinHold", d) })
}

// Shared acquires the name as a reader. Any number of readers hold it together, never with a writer (a caller without Shared). Neither
// starves: a waiting writer is served before later readers. But some readers may still join readers of their own Client: those already waiting when
// these get the name, and then 16 more, or those of the next 100 ms if the backend does not report the writer. Readers of a Client with one TTL
// usually share a claim and its token; a later writer's token is greater. Without Capabilities.Shared, the error is errors.ErrUnsupported.
func Shared() AcquireOption {
	return acquireOption(func(a *acquisition) error { a.shared = true; return nil })
}

// Permits acquires one of n permits of the name, from 1 to driver.MaxPermits: all processes together hold at most n. Every caller must give the same
// n for a name; if the server can detect another n, that is an error (ErrInvalidOption). The permits of a name and its lock are independent. Backends
// without permits fail with errors.ErrUnsupported: see Capabilities.Permits.
func Permits(n int) AcquireOption {
	return acquireOption(func(a *acquisition) error {
		if n < 1 || n > driver.MaxPermits {
			return fmt.Errorf("%w: %d permits; it must be 1 to %d", ErrInvalidOption, n, driver.MaxPermits)
		}
		a.permits = int32(n)
		return nil
	})
}

// notNegative rejects a negative duration.
func notNegative(option string, d time.Duration) error {
	if d < 0 {
		return fmt.Errorf("%w: %s is %v; it cannot be negative", ErrInvalidOption, option, d)
	}
	return nil
}

// maxLabel keeps owner ids within driver.MaxOwnerLength.
const maxLabel = 64

// Label names this client for people: status and error messages show it beside host and process id. At most 64 bytes; characters other than
// ASCII letters, digits and "._-" become "_". Default: the program's name.
func Label(s string) Option {
	return clientOption(func(c *config) error {
		if len(s) > maxLabel {
			return fmt.Errorf("%w: the label has %d bytes; at most %d are allowed", ErrInvalidOption, len(s), maxLabel)
		}
		c.label = s
		return nil
	})
}

// HideHost replaces the host's name in owner ids by "hidden"; every user of the lock server can read them. Default: the host's name, so
// that people can find a holder that hangs.
func HideHost() Option {
	return clientOption(func(c *config) error { c.hideHost = true; return nil })
}

// Logger receives background events: losses, failed renewals, notices about the server, claims being undone. Default: slog.Default(); nil
// switches logging off.
func Logger(l *slog.Logger) Option {
	return clientOption(func(c *config) error {
		if l == nil {
			l = slog.New(slog.DiscardHandler)
		}
		c.logger = l
		return nil
	})
}

// Observe calls h for traces and metrics. You can pass it several times. Default: none, which costs nothing.
func Observe(h Hooks) Option {
	return clientOption(func(c *config) error { c.hooks = append(c.hooks, h); return nil })
}

// WithoutHandOff releases the lock at the server after every hold, even if a goroutine of this process waits for it. Use it where polling clients
// compete with lockport, which cannot see them wait: with hand-off, the name is free for a moment at most ten times a second. Default: hand-off, within
// bounds.
func WithoutHandOff() Option {
	return clientOption(func(c *config) error { c.noHandOff = true; return nil })
}

// Requirement is a property that a service needs from its locks.
type Requirement int

// Requirements, for Require.
const (
	// NeedTokens: every hold has a fencing token, in order as long as the server's data survives.
	NeedTokens Requirement = iota
	// NeedTokensAcrossFailover: tokens stay in order when a server is lost or loses its data.
	NeedTokensAcrossFailover
	// NeedFailoverSafety: an acknowledged lock survives while a quorum of servers keeps its data. The number of servers and their settings are not
	// checked here: see lockport doctor.
	NeedFailoverSafety
	// NeedFairOrder: processes are served first in, first out, at least as long as they answer.
	NeedFairOrder
	// NeedNoPolling: the release of a name by a lockport client wakes its waiters, for any number of names. Rare requests as a safety net, or
	// because foreign clients announce nothing, do not count as polling.
	NeedNoPolling
	// NeedShared: the option Shared works.
	NeedShared
	// NeedPermits: the option Permits works.
	NeedPermits
	// NeedDetach: Lock.Detach and Client.Attach work.
	NeedDetach
)

// Require makes New and Open fail, with errors.ErrUnsupported, if the backend does not meet a requirement, so that a changed URL cannot
// silently weaken a service.
func Require(rs ...Requirement) Option {
	return clientOption(func(c *config) error { c.require = append(c.require, rs...); return nil })
}

func (r Requirement) check(caps driver.Capabilities) error {
	stated := []struct {
		ok   bool
		need string
		have string
	}{
		NeedTokens:               {caps.Token >= driver.TokenData, "fencing tokens", "tokens: " + caps.Token.String()},
		NeedTokensAcrossFailover: {caps.Token >= driver.TokenFailover, "fencing tokens across fail-over", "tokens: " + caps.Token.String()},
		NeedFailoverSafety:       {caps.Failover == driver.FailoverSafe, "locks that survive fail-over", "fail-over: " + caps.Failover.String()},
		NeedFairOrder:            {caps.Fair >= driver.FairAdvice, "first-in-first-out order", "order: " + caps.Fair.String()},
		NeedNoPolling:            {!caps.Wake.Polls(), "waiting without polling", "waiting: " + caps.Wake.String()},
		NeedShared:               {caps.Shared, "shared locks", "no shared locks"},
		NeedPermits:              {caps.Permits, "permits", "no permits"},
		NeedDetach:               {caps.Detach, "detaching a hold", "no detaching"},
	}
	if r < 0 || int(r) >= len(stated) {
		return fmt.Errorf("%w: unknown requirement %d", ErrInvalidOption, int(r))
	}
	if s := stated[r]; !s.ok {
		return fmt.Errorf("%w: %s required, but the backend states %q", errors.ErrUnsupported, s.need, s.have)
	}
	return nil
}

// check checks the options of one acquisition against each other and the backend.
func (a acquisition) check(caps driver.Capabilities) error {
	switch {
	case a.maxHold > 0 && a.minHold > a.maxHold:
		return fmt.Errorf("%w: MinHold %v is longer than MaxHold %v", ErrInvalidOption, a.minHold, a.maxHold)
	case a.attached != nil && !caps.Detach:
		return fmt.Errorf("%w: %s cannot attach another process's hold", errors.ErrUnsupported, caps.Backend)
	case caps.FixedTTL > 0 && a.ttl != caps.FixedTTL:
		return fmt.Errorf("%w: TTL %v, but all locks share the session's TTL of %v", errors.ErrUnsupported, a.ttl, caps.FixedTTL)
	case a.shared && !caps.Shared:
		return fmt.Errorf("%w: %s has no shared locks", errors.ErrUnsupported, caps.Backend)
	case a.permits > 0 && !caps.Permits:
		return fmt.Errorf("%w: %s has no permits", errors.ErrUnsupported, caps.Backend)
	case a.shared && a.permits > 0:
		return fmt.Errorf("%w: Shared and Permits exclude each other", ErrInvalidOption)
	case a.ttl < caps.MinTTL:
		return fmt.Errorf("%w: TTL %v is below the smallest that %s accepts, %v", ErrInvalidOption, a.ttl, caps.Backend, caps.MinTTL)
	}
	return nil
}
