package session

import (
	"context"
	"time"

	"github.com/lockport/lockport/driver"
)

// Key is the server's own name of a lock: a decimal bigint on Postgres, 64 characters on MySQL. Options.Layout makes it from a name.
type Key string

// Kind is what an Op does.
type Kind int

// The kinds of Op, and what Op.OK says of each.
const (
	// Try takes Key if it is free, and draws Op.Token after it is certain that this session has it. OK: this session has it now. The engine
	// never tries a Key that this session has or may have: that would take it twice. With Shared it does, if it has the Key with Shared only: the
	// server counts.
	Try Kind = iota
	// Free gives Key back, and then tells the sessions that await it. OK: this session had it. Sent once only for each Try.
	Free
	// Ping shows the server that the session lives. OK is not looked at.
	Ping
	// Await makes this session one that waits for Key: from now on whoever frees Key tells Events.Freed of this session; its holder is told
	// Events.Contended once. The engine awaits a Key once only until it has left it. OK is not looked at. A server that cannot tell is not asked: its
	// backend hides Backend.Notify.
	Await
	// Leave ends Await. Leaving a Key that is not awaited does nothing. OK is not looked at.
	Leave
	// End makes sure that the session of Op.Earlier, whose connection has ended for us, has ended at the server too and with it all its locks and waits; it
	// may have to terminate it. OK: it certainly has. false: not yet, it is ending.
	End
)

// Op is one thing that a session does, and the answer. The engine does not touch an Op between its being handed to Conn and the return of that
// call; after it Conn does not touch it.
type Op struct {
	Kind    Kind
	Key     Key  // of all but Ping and End
	Earlier Conn // of End, which reads of it only by what the server knows the session, for ever and after a restart too

	// Shared says of a Try that the Key is wanted beside other sessions that share it, and of a Free that it was taken so. Only with
	// Capabilities.Shared.
	Shared bool
	// Slots are the keys of permits, one of which a Try wants: the first that is free in their order. This session has none of them. Key is then that of all permits
	// of the name, which is awaited, and under which tokens rise.
	Slots []Key
	// Slot is the permit that a Try of Slots got, or that a Free gives back. Whoever awaits Key is told.
	Slot Key

	// Name and Owner are those of the claim (driver.Request) that a Try or a Wait is for. They decide nothing: a backend may keep them
	// at the server for Inspect.
	Name, Owner string

	// OK is the answer: see Kind.
	OK bool
	// Token is that of a Try that got the Key, from 1 to driver.MaxToken; 0 where there are none.
	Token uint64
	// Contended is set by a Try that got the Key if it is known that somebody else waits for it. Advice; leave it unset where it would cost.
	Contended bool
	// Err is the failure of this Op alone, which certainly had no effect: of a class of package driver (ErrRefused: no privilege; ErrUnavailable: the
	// table of locks is full). Where it is not certain that there was no effect, Conn returns an error instead.
	Err error
}

// confirms says that the answer can only be the server's: a Conn may know by itself what it awaits, or that there is no room for a lock.
func (op *Op) confirms() bool { return op.Err == nil && op.Kind != Await && op.Kind != Leave }

// Server dials sessions. Dial may be called concurrently.
type Server interface {
	// Dial opens a session and sets it up: time-outs, keep-alives, whatever is needed for Events. label is for people who look at the server's list
	// of sessions: host, process id and label of the client, as driver.OwnerClient, printable ASCII of at most 223 bytes, perhaps empty. It returns
	// soon after ctx ends; ctx bounds the dialling alone and is cancelled afterwards. Errors are of the class
	// driver.ErrUnavailable or driver.ErrRefused, one line, and show no password; nothing is left behind then. Events may be told before Dial has returned.
	Dial(ctx context.Context, label string, e Events) (Conn, error)
}

// Events are told by a session's connection, from any goroutine, also during a call of its methods. They do not block. All are set.
type Events struct {
	// Freed says that somebody freed a Key that this session awaits. It may come too often, and for keys that nobody awaits.
	Freed func(Key)
	// Contended says that somebody else awaits Key or waits for it. It may come too often, and for keys that this session does not have.
	Contended func(Key)
}

// Conn is one session on a connection of its own. Its locks end with it.
//
// The engine calls Do, Wait, Listen and Close one at a time, on a goroutine of the session's own. No context of a caller reaches a Conn. An error of Do, Wait or Listen says that the connection has ended, or must, and why (a plain cause, without a class of package
// driver); the engine then calls Close, and takes the outcome of the ops under way as unknown.
type Conn interface {
	// Do carries out ops (at least one, at most MaxBatch; at most one Try or Free of a Key, save with Shared) in their order, or in one that nobody can tell from it, in
	// as few requests as it can, and writes their answers. ctx ends with the session, or if Do takes longer than Options.TTL: Do then returns within
	// milliseconds, with an error. Await and Leave, and what gets an Err, may be answered without asking the server: they alone confirm nothing of
	// the session.
	Do(ctx context.Context, ops []*Op) error

	// Wait takes op.Key as Try does but blocks in the server's own queue, for as long as it takes. op.OK is true unless op.Err is set. Only the
	// grant, an op.Err, the end of the connection and that of ctx, which ends with the session, end it. Where the server limits the time of a
	// wait, Wait waits again. The connection's end is noticed while it waits, on our side at once, and on the server's side if that can be had. The
	// holder is told Contended.
	Wait(ctx context.Context, op *Op) error

	// Listen is called when nothing is to be asked. It tells Events, and returns nil soon after ctx ends, which happens as soon as there is
	// something to ask and must leave the session as it is. A Conn that can tell at once that its connection has ended returns an error then;
	// one that cannot waits for ctx, and its backend sets Options.Beat.
	Listen(ctx context.Context) error

	// Close ends the connection at once, without waiting for the server. It is called once.
	Close()
}

// MaxBatch is the greatest number of Ops in one Do.
const MaxBatch = 128

// Options are what a backend chooses.
type Options struct {
	// TTL is the one TTL of all claims: the server keeps a session's locks for exactly so long after a request was sent although it hears nothing more,
	// for which Server sets sessions up. Positive.
	TTL time.Duration

	// Blockers is how many names at most wait on connections of their own, in the server's queue. 0: none, all look again when they are told or
	// once a second. A lock that was got by waiting lives on its connection until it is released, which counts as one of them.
	Blockers int

	// Beat, if positive, is after how long without a request a session with locks is asked for a sign of life: where Conn.Listen cannot tell that a
	// connection has ended. The loss of the locks is told within about this time.
	Beat time.Duration

	// Layout makes the server's key from a lock's name. An error, of a class of package driver (ErrRefused), is returned to the caller. It does no I/O
	// and may be called concurrently.
	Layout func(name string) (Key, error)

	// Permit makes keys for permits: of the key of a lock and 0, that of all permits of the name; of that key and a number from 1 on, that of
	// one permit. It is needed with Capabilities.Permits.
	Permit func(key Key, n int) Key

	// Capabilities is what the backend promises. The engine sets Ends, FixedTTL and Prompt.
	Capabilities driver.Capabilities

	// As serves Lock.As, if not nil: it sets target, a pointer, if it knows its type, to the backend's view of the lock key on the session c. It must not
	// let its caller use c.
	As func(c Conn, key Key, target any) bool
}
