package session

import (
	"context"
	"time"

	"github.com/lockport/lockport/driver"
)

// Kind is what an Op does.
type Kind int

// The kinds of Op, and what Op.OK means for each.
const (
	// Try takes Key if it is free. It draws Op.Token only once this session certainly has the Key. OK: this session has it now. The engine
	// never tries a Key that this session has or may have: that would take it twice. The exception is a shared Try of a Key that the session has
	// shared only: the server counts. Such a Try fails while another session waits for the Key, so that it does not overtake a writer.
	Try Kind = iota
	// Free releases Key, then notifies the sessions that await it. OK: this session had it. Sent once for each Try, and again only after an Op.Err.
	Free
	// Ping shows the server that the session lives. OK is ignored.
	Ping
	// Await registers this session as a waiter for Key. From now on a release of Key calls Events.Freed here; the holder gets one Events.Contended.
	// The engine does not await a Key again before it leaves it. OK is ignored. A backend whose server cannot notify hides Backend.Notify, and
	// gets no Await.
	Await
	// Leave ends Await. Leaving a Key that is not awaited does nothing. OK is ignored.
	Leave
	// End makes sure that the session of Op.Earlier has ended at the server, with all its locks and waits. It has already ended on our side.
	// End may terminate it. OK: it has certainly ended; false: it is still ending.
	End
)

// Op is one request of a session, and its answer. The engine does not touch its exported fields during the call of Conn that carries it out; Conn
// touches no field afterwards.
type Op struct {
	Kind    Kind
	Key     Key  // unset for Ping and End
	Earlier Conn // for End, which reads only the session's identity at the server, unique for ever and across restarts

	// Shared: a Try wants the Key beside other sessions that share it; a Free releases a Key taken so. Only with Capabilities.Shared.
	Shared bool
	// Slots are the keys of permits, in order of preference: a Try takes the first that is free. This session has none of them. Key is then the key
	// of all permits of the name: waiters await it, and tokens rise under it.
	Slots []Key
	// Slot is the permit that a Try of Slots got, or that a Free releases. The sessions that await Key are notified.
	Slot Key

	// Name and Owner are those of the claim (driver.Request) behind a Try or Wait. They decide nothing; a backend may store them at the server for
	// Inspect.
	Name, Owner string

	// OK is the answer: see Kind.
	OK bool
	// Token is the token of a Try that got the Key, from 1 to driver.MaxToken; 0 without tokens.
	Token uint64
	// Err is the failure of this Op alone, which certainly had no effect. It has a class of package driver (ErrRefused: no privilege; ErrUnavailable:
	// the lock table is full), or is ErrReadOnly. If an effect is possible, Conn returns an error instead.
	Err error

	waits   bool          // by Conn.Wait
	onDone  func(*Op)     // if not nil: handles the answer or failure
	settled bool          // it is answered or has failed; then Err may also say that nothing was sent, or that the outcome is unknown
	done    chan struct{} // closed once it is settled
}

// Events are called by a session's connection, from any goroutine, also during a call of its methods. They do not block. All are set.
type Events struct {
	// Freed: a Key that this session awaits was released. It may be called too often, and for keys that nobody awaits.
	Freed func(Key)
	// Contended: another session awaits Key or waits for it. It may be called too often, and for keys that this session does not have.
	Contended func(Key)
}

// Conn is one session on a connection of its own. Its locks end with it.
//
// The engine calls Do, Wait, Listen and Close one at a time, on the session's own goroutine. No caller's context reaches a Conn. An error of Do, Wait
// or Listen means that the connection has ended, or must. It states a plain cause, without a class of package driver. The engine then calls Close,
// and counts the ops under way as unknown.
type Conn interface {
	// Do carries out ops in their order, or as if in it, in as few requests as it can, and writes their answers. There are 1 to MaxBatch ops, with at
	// most one Try or Free of a Key unless Shared. Only Frees and Tries without Slots go together. ctx ends with the session, or if Do takes longer
	// than Options.TTL: Do then returns an error within milliseconds. An Err may be given without asking the server: such answers alone do not confirm
	// the session.
	Do(ctx context.Context, ops []*Op) error

	// Wait takes op.Key as Try does, but blocks in the server's own queue, without a time limit. op.OK is true unless op.Err is set. Wait ends only
	// with the grant, an op.Err, the connection or ctx, which ends with the session. Where the server limits a wait, Wait waits again. A lost
	// connection is noticed meanwhile, on our side at once, and on the server's side if possible. The holder gets Events.Contended.
	Wait(ctx context.Context, op *Op) error

	// Listen is called when nothing is to be asked. It calls Events, and returns nil soon after ctx ends. ctx ends as soon as there is something to
	// ask; that must leave the session as it is. A Conn that can notice the end of its connection at once returns an error then. One that
	// cannot waits for ctx, and its backend sets Options.Beat.
	Listen(ctx context.Context) error

	// Close ends the connection at once, without waiting for the server. It is called once.
	Close()
}

// MaxBatch is the greatest number of Ops in one Do.
const MaxBatch = 128

// Options are what a backend chooses.
type Options struct {
	// Dial opens a session and sets it up: timeouts, keep-alives, whatever Events needs. label identifies the client in the server's list of
	// sessions: host, process id and label, as of driver.OwnerClient, printable ASCII of at most 223 bytes, perhaps empty. ctx bounds only the
	// dialing, and is canceled afterwards; Dial returns soon after ctx ends. Errors are driver.ErrUnavailable or driver.ErrRefused, one line,
	// show no password, and leave nothing behind. Dial may be called concurrently, and Events before it has returned.
	Dial func(ctx context.Context, label string, e Events) (Conn, error)

	// TTL is the TTL of all claims. Dial sets sessions up so that the server keeps a silent session's locks for this long after a request was sent:
	// never less, and not much longer. Positive.
	TTL time.Duration

	// Blockers limits how many names wait in the server's queue, each on a connection of its own. 0: none. Other waiters try again when notified,
	// or once a second. A lock acquired on such a connection lives there until its release, and counts as one of them.
	Blockers int

	// Beat, if positive, is how often a silent session with locks is pinged, and a session is pinged after each Wait: for a Conn whose Listen cannot
	// notice the end of its connection. The loss of the locks is told within about this time.
	Beat time.Duration

	// Layout derives the server's keys from names.
	Layout Layout

	// Limit, if not nil, returns half the size of the server's lock table, or 0 if it is unknown yet. A client never has more locks there: once the
	// table is full, nobody can connect.
	Limit func() int

	// Capabilities is what the backend promises: Ends is driver.EndsSession, FixedTTL is TTL, and Prompt is set.
	Capabilities driver.Capabilities

	// Look runs f with a Looker, and gives its error a class.
	Look func(ctx context.Context, f func(Looker) error) error

	// As serves Lock.As, if not nil. If it knows the type of target, a pointer, it sets it to the backend's view of the lock key on the session c.
	// It must not let its caller use c.
	As func(c Conn, key Key, target any) bool

	// Close, if not nil, closes what the backend owns, once the sessions have ended.
	Close func() error
}
