// Package fence is the receiving side of fencing tokens: what a lock protects refuses a holder that lost the lock and does not know it yet.
//
// A lock is a lease. A process that is paused (stopped, swapped out, its machine suspended) after it looked at its lock can wake when somebody else has it, and
// then write. No lock can stop that; only what is written to can. Each hold of a lock has a token, [lockport.Lock.Token], that is greater than those of
// all earlier holds of its name. What the lock protects remembers the greatest token that it has seen, and refuses a smaller one.
//
// # Which one
//
//   - [Memory]: what is protected is in this process, or every write goes through it.
//   - Package sqlfence: a transaction on Postgres, MySQL or MariaDB.
//   - Package redisfence: keys of Redis. Package etcdfence: keys of etcd. Package zkfence: nodes of ZooKeeper.
//   - Anything else that can compare and write in one step: [Check] is the rule, and ErrStale the error.
//
// The token must be checked where the data are, in one step with the write. A check in the writer, or one that is followed by the write, leaves the
// gap open in which the writer is paused. The lock may be on another system than the data.
//
// # The rules
//
// A new holder registers its token before it reads. If it only gave it with its first write, an old holder's write, still on its way, could land between
// the new holder's read and its write: it would be accepted, and then overwritten by a value that was computed without it. Once the token is registered
// nothing older can be accepted, so what is read afterwards stays true until the holder itself, or a newer one, writes. In a
// transaction this is one rule: the guard is its first statement.
//
// Equal tokens pass. A holder registers once and writes often, repeats what had no answer, and may be several goroutines, which then do not exclude
// each other: inside of one hold that is the program's own business.
//
// Hand-offs inside a process have tokens of their own. A client may pass a lock from one of its goroutines to the next without asking the server; so that the one
// before is refused too, a hold's token is the server's × 1,024 plus the number of hand-offs since the server granted the lock. Compare tokens of lockport with
// tokens of lockport alone: a program in another language that uses the server's own number (a revision, a sequence's value) as its token
// multiplies it by 1,024 first.
//
// One fence is for one lock: tokens of different names, and of different backends, are not to be compared. When the lock moves to another
// backend, the fence must be emptied while no holder is left, since the new backend's tokens may be smaller.
//
// # What a fence does not do
//
//   - It does not make two holders exclude each other; the lock does, nearly always. It makes the older one's late write harmless.
//   - It does not undo what the older holder wrote before the newer one registered, nor effects elsewhere (an e-mail, a call to a service without a fence).
//   - It guards only what goes through it. One writer without a token, and all is as before.
//   - It is as durable as the place where it keeps the token. It believes tokens: it is no protection against who invents one.
//   - Redlock has no tokens; the pages of the other backends, and docs/guarantees.md, say when tokens can repeat.
package fence
