package lockport

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// ticket is what Detach passes to Attach.
type ticket struct {
	Name  string        `json:"name"`
	Owner string        `json:"owner"`
	Token Token         `json:"token"` // of the hold
	TTL   time.Duration `json:"ttl"`
}

// ticketPrefix begins a ticket and names the version of its format.
const ticketPrefix = "lp1."

func (t ticket) String() string {
	text, _ := json.Marshal(t) // never fails
	return ticketPrefix + base64.RawURLEncoding.EncodeToString(text)
}

// parseTicket is the reverse of String.
func parseTicket(s string) (*ticket, error) {
	digits, ours := strings.CutPrefix(s, ticketPrefix)
	text, err := base64.RawURLEncoding.DecodeString(digits)
	t := new(ticket)
	if !ours || err != nil || json.Unmarshal(text, t) != nil || checkName(t.Name) != nil || t.Owner == "" || len(t.Owner) > driver.MaxOwnerLength ||
		t.TTL < minTTL || t.Token > driver.MaxToken*driver.TokensPerGrant {
		return nil, fmt.Errorf("%w: not a ticket from Detach", ErrInvalidOption)
	}
	return t, nil
}

// Detach ends the hold here and returns a ticket. Client.Attach takes the hold over with it within the TTL, also in another process; nobody else can
// acquire the name in between. Keep the ticket secret: the first caller who presents it gets the lock. Without an Attach the lock ends with its TTL.
// After Detach, Err is ErrReleased, and MinHold has no effect any more. If Detach fails, the hold lasts unless the error matches ErrLost,
// ErrReleased or ErrClosed. An unknown outcome is ErrLost too.
//
// Detach fails with errors.ErrUnsupported for readers, permits and inner holds, and if the lock belongs to a session (see Capabilities.Detach).
func (l *Lock) Detach(ctx context.Context) (string, error) {
	if err := l.detach(ctx); err != nil {
		return "", l.claim.client.fail("detach", l.Name(), err)
	}
	return ticket{Name: l.Name(), Owner: l.Owner(), Token: l.token, TTL: l.TTL()}.String(), nil
}

func (l *Lock) detach(ctx context.Context) error {
	c, cl := l.claim.client, l.claim
	if !c.caps.Detach || cl.queue.several() || l.outer != nil {
		return fmt.Errorf("%w: this hold cannot be detached", errors.ErrUnsupported)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	join, cancel := context.WithTimeout(ctx, renewalTimeout(cl.req.TTL))
	defer cancel()
	lease := cl.joinRenewal(join)
	switch e := l.endAt(c.now()); {
	case e != nil:
		return e.err
	case lease == nil:
		return ownLimit(ctx, fmt.Errorf("%w: a renewal under way has not returned (%w)", ErrUnavailable, join.Err()))
	case ctx.Err() != nil:
		return ctx.Err()
	}
	cl.renewal, cl.detaching = make(chan struct{}), true // others wait for it instead of renewing
	c.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, renewalTimeout(cl.req.TTL))
	defer cancel()
	err := c.ask(call, func() error { return c.attacher.Detach(call, lease) })
	c.mu.Lock()
	if errors.Is(err, errNoAnswer) {
		cl.lease = nil // only Abandon may run beside Detach
	}
	err = ownLimit(ctx, err)
	cl.renewalEnded()
	e, class := l.ended.Load(), classOf(err)                      // another goroutine may have ended the hold meanwhile
	cl.detaching = class != ErrUnavailable && class != ErrRefused // else nothing has changed; only Release may follow
	switch {
	case cl.state != held: // it is being released, or gone
	case err == nil && e != nil && cl.keepUntil < time.Duration(cl.deadline.Load()): // it is kept for the MinHold of the hold that has ended
		cl.renewAt = never
	case err == nil:
		l.end(released)
		cl.remove(l)
		c.timers.remove(cl)
		cl.leave()
	case cl.lease == nil, cl.detaching: // it is gone, or may end with its TTL despite renewals
		cl.lose(err)
		e = l.ended.Load()
	default:
		cl.schedule()
	}
	if e != nil {
		err = e.err
	}
	return err
}

// ownLimit hides the context error in err if no context of the caller's has ended: it comes from a time limit of this package.
func ownLimit(ctx context.Context, err error) error {
	if hasEnded(ctx) || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return as(classOf(err), err)
}

// Attach takes over the hold that Detach gave up for ticket, with its token. If several callers present the ticket, one succeeds. ErrLost: the hold
// has ended, or another caller has attached it. ErrUnavailable: the outcome is unknown; if the hold was attached, it is released. Other errors are
// those of Acquire. opts may have MinHold, MaxHold and TTL; the default TTL is that of the detached hold.
func (c *Client) Attach(ctx context.Context, ticket string, opts ...AcquireOption) (*Lock, error) {
	t, err := parseTicket(ticket)
	if err != nil {
		return nil, c.fail("attach", "", err)
	}
	from := acquireOption(func(a *acquisition) error {
		if a.mode != (mode{}) || a.reenter {
			return fmt.Errorf("%w: Attach excludes Shared, Permits and Reenter", ErrInvalidOption)
		}
		a.attached = t
		return nil
	})
	return c.acquire(ctx, "attach", t.Name, append(append([]AcquireOption{TTL(t.TTL)}, opts...), from))
}
