// Package fence is the receiving side of fencing tokens: the data that a lock protects refuse a holder that has lost the lock and does not know it yet.
//
// A lock is a lease. A process that is paused (stopped, swapped out, its machine suspended) after it checked its lock can wake when another process has it,
// and then write. No lock can prevent that; only the place of the write can. Each hold has a token, [lockport.Lock.Token], that is greater than the
// tokens of all earlier holds of its name. A fence remembers the greatest token that it has seen, and refuses a smaller one.
//
// # Which fence
//
//   - [Memory]: the data are in this process, or every write goes through it.
//   - Package sqlfence: a transaction on Postgres, MySQL or MariaDB.
//   - Package redisfence: keys of Redis. Package etcdfence: keys of etcd. Package zkfence: nodes of ZooKeeper.
//   - Anything else that can compare and write in one step: [Check] is the rule, and ErrStale the error.
//
// The lock may be on another system than the data. The data decide, in one step with the write: a check in the writer leaves a gap in which it can be paused.
//
// # Rules
//
//   - A new holder registers its token before it reads. If it gave it only with its first write, an older holder's write could land between the new holder's
//     read and its write: it would be accepted, and then overwritten by a value that was computed without it.
//   - Equal tokens pass. A holder registers once and writes often, repeats what had no answer, and may be several goroutines.
//   - One fence is for one lock: do not compare tokens of different names or backends. When the lock moves to another backend, empty the fence while no
//     holder is left.
//   - Compare tokens of lockport with tokens of lockport alone. A client may pass a lock from one of its goroutines to the next without asking the
//     server, so a token is the server's number × 1,024 plus the number of hand-offs since the server's grant.
//
// # Guarantees of every fence
//
//   - Once a token is registered, no guarded write with a smaller one takes effect, whenever it arrives.
//   - A refusal matches [ErrStale]: nothing was written, and never will be with that token. After an error that is neither a refusal nor the server's own
//     answer, the outcome is unknown, and the write may yet arrive. It does nothing once a newer token is registered.
//   - Every call returns soon after its context ends, as far as the client library allows.
//
// # Limits of every fence
//
//   - It does not make holders exclude each other; the lock does, nearly always. It makes the older holder's late write harmless.
//   - It is for holders that are alone. Readers, and holders of permits, hold a name beside each other: it refuses all but the newest of them.
//   - It does not undo earlier writes of the older holder, nor effects elsewhere (an e-mail, a call to a service without a fence).
//   - It neither sees nor refuses a write that does not go through it. It believes tokens: it is no protection against forged ones.
//   - It is as durable as the data beside it. A server that loses its last writes, or is restored from a backup, forgets registrations with them.
//   - A fence that was deleted refuses all writes until a holder registers again; but an old holder that registers first would be believed.
//   - Redlock has no tokens; docs/guarantees.md says when the tokens of the other backends can repeat.
package fence
