package lockport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockport/lockport/driver"
)

// Status is what the lock server knows about one lock.
type Status struct {
	Name    string
	Held    bool      // false: nobody holds it, and only Waiters is meaningful
	Owner   string    // the id of the hold, for Break; or a foreign client's value
	Host    string    // the holder's host; empty if unknown or foreign
	PID     int       // its process id; 0 likewise
	Label   string    // see the option Label; empty likewise
	Foreign bool      // the holder is not a lockport client
	Token   Token     // of the first hold of the grant; 0 if none or unknown
	Since   time.Time // zero if unknown
	Expires time.Time // when the hold ends if the server does not hear from the holder again; zero if unknown or never
	Waiters int       // waiting clients that the server knows of; -1 if it cannot know

	Shared  bool     // held by readers: see the option Shared
	Permits int      // not 0: the holder has one of this many permits; negative: their number is unknown; see the option Permits
	Others  []Status // the other holders, if any, in no order
}

// newStatus converts a driver's Status.
func newStatus(st driver.Status) Status {
	s := Status{Name: st.Name, Held: st.Held, Waiters: st.Waiters}
	if !st.Held {
		return s
	}
	s.Owner, s.Foreign, s.Since, s.Expires, s.Shared, s.Permits = st.Owner, st.Foreign, st.Since, st.Expires, st.Shared, st.Permits
	for _, other := range st.Others {
		other.Name, other.Held, other.Waiters, other.Others = st.Name, true, st.Waiters, nil
		s.Others = append(s.Others, newStatus(other))
	}
	if !st.Foreign {
		s.Token = Token(st.Token * driver.TokensPerGrant)
		if who, ok := driver.OwnerClaimant(st.Owner); ok {
			s.Host, s.PID, s.Label = who.Host, who.PID, who.Label
		}
	}
	return s
}

// Inspect asks the server who holds a lock. It changes nothing. The answer is about the past: to take a free lock, use TryAcquire. Backends that
// cannot tell fail with errors.ErrUnsupported.
func (c *Client) Inspect(ctx context.Context, name string) (Status, error) {
	inspect := func(i driver.Inspector) (driver.Status, error) { return i.Inspect(ctx, name) }
	st, err := query(ctx, c, "inspect", name, checkName(name), "show its locks", inspect)
	return newStatus(st), err
}

// List asks the server for all locks that are held or waited for and whose names begin with prefix, in no order. With an error the list may be
// incomplete. It fails with errors.ErrUnsupported where the backend cannot tell.
func (c *Client) List(ctx context.Context, prefix string) (all []Status, err error) {
	if prefix != "" {
		err = checkName(prefix)
	}
	list := func(i driver.Inspector) ([]driver.Status, error) { return i.List(ctx, prefix) }
	found, err := query(ctx, c, "list", "", err, "show its locks", list)
	for _, st := range found {
		all = append(all, newStatus(st))
	}
	return all, err
}

// Break ends a hold of name by force, for a holder that hangs. owner is its id, as Inspect shows it; no other hold is ended. ErrLost: that holder no
// longer has the lock. The holder learns of it when it next hears from the server, and may work until then: only fencing tokens protect from that. If
// the server can only end a session that has other locks too, Break ends nothing, and errors.As finds a *driver.SharedSessionError that counts them.
// Backends that cannot end holds fail with errors.ErrUnsupported. driver.ErrUnknown, or the end of ctx: the hold may have ended; ask Inspect.
func (c *Client) Break(ctx context.Context, name, owner string) error {
	_, err := query(ctx, c, "break", name, checkName(name), "end a hold by force", func(b driver.Breaker) (none struct{}, err error) {
		if owner == "" { // of a holder whose id is unknown
			return none, fmt.Errorf("%w: the owner id is empty", ErrLost)
		}
		return none, b.Break(ctx, name, owner)
	})
	return err
}

// query calls f with the optional interface D of the backend, unless invalid is an error of the arguments. ability is what a backend without D cannot do.
func query[D, T any](ctx context.Context, c *Client, op, name string, invalid error, ability string, f func(D) (T, error)) (answer T, err error) {
	d, ok := driver.As[D](c.backend)
	if !ok {
		err = fmt.Errorf("%w: the backend cannot %s", errors.ErrUnsupported, ability)
	}
	if err = cmp.Or(err, invalid, ctx.Err()); err == nil {
		var got T
		err = c.ask(ctx, func() (err error) { got, err = f(d); return err })
		if !errors.Is(err, errNoAnswer) { // else f may still set it
			answer = got
		}
	}
	if err != nil {
		err = c.fail(op, name, err)
	}
	return answer, err
}
