// Package fence is the receiving side of fencing tokens: protected data refuse writes of a holder that lost its lock and does not know it yet.
//
// A lock is a lease. A process can be paused (stopped, swapped out, its machine suspended) after it checked its lock. When it resumes, another
// process may hold the lock, and the first one still writes. No lock can prevent that; only the place of the write can. Each hold has a token,
// [lockport.Lock.Token], greater than those of all earlier holds of its name. A fence remembers the greatest token seen and refuses smaller ones.
//
// # Which fence
//
//   - [Memory]: the data are in this process, or every write goes through it.
//   - Package sqlfence: a transaction on Postgres, MySQL or MariaDB.
//   - Package redisfence: keys of Redis. Package etcdfence: keys of etcd. Package zkfence: nodes of ZooKeeper.
//   - Anything else that can compare and write in one step: [Check] is the rule, and ErrStale the error.
//
// The lock and the data may be on different systems. The data must decide, in one step with the write: a writer can be paused after its own check.
//
// # Rules
//
//   - A new holder registers its token before it reads. If it presented the token only with its first write, an older holder's write could land
//     between that read and that write. It would be accepted, then overwritten by a value computed without it.
//   - Equal tokens pass. A holder registers once and writes often, may repeat unanswered writes, and may use several goroutines.
//   - One fence serves one lock: never compare tokens of different names or backends. If the lock moves to another backend, empty the fence while
//     there is no holder.
//   - Compare lockport's tokens only with lockport's tokens. A client may hand a lock to another of its goroutines without asking the server, so a
//     token is the server's number × 1,024 plus the number of hand-offs since the server's grant.
//
// # Guarantees of every fence
//
//   - Once a token is registered, no guarded write with a smaller one takes effect, whenever it arrives.
//   - A refusal matches [ErrStale]: nothing was written, and nothing ever will be with that token. After an error that is neither a refusal nor the
//     server's own answer, the outcome is unknown, and the write may still arrive. The same holds if the server answers that it ran out of time or
//     space. A late write does nothing once a newer token is registered.
//   - Every call returns soon after its context ends, as far as the client library allows.
//
// # Limits of every fence
//
//   - It does not make holders exclude each other; the lock does, nearly always. It makes an older holder's late write harmless.
//   - It is for exclusive holders. Among readers or holders of permits, which share a name, it refuses all but the newest.
//   - It undoes neither earlier writes of the older holder nor effects elsewhere (an e-mail, a call to a service without a fence).
//   - It does not see writes that bypass it. It trusts tokens, so it does not protect against forged ones.
//   - It is as durable as the data beside it. A server that loses its last writes, or is restored from a backup, loses registrations too.
//   - A deleted fence refuses all writes until a holder registers again. If an old holder registers first, the fence trusts it.
//   - Redlock has no tokens. docs/guarantees.md says when the tokens of the other backends can repeat.
package fence
