// Package leader runs a function in one process at a time: the leader among all processes that call [Run] with the same name on the same server.
//
// # What is not guaranteed
//
// Run cannot stop fn. It ends fn's context and waits until fn returns. So two processes can act as the leader at the same time:
//
//   - if fn ignores its context, or returns after the lock's validity ends. [Grace] gives it more time to return.
//   - if lockport.MaxHold ends the term: the lock is released as fn's context ends. Grace ends the context earlier.
//   - if the leader's process is stopped (SIGSTOP, swapping, a suspended virtual machine) for longer than the TTL. When it resumes, fn may do one
//     more thing before it sees that its context has ended. Call term.Valid after anything that may have taken long; it compares clocks.
//   - if clocks measure durations at speeds that differ by more than 5 %.
//   - if the backend loses the lock, as a Redis that fails over to a replica may, or an operator ends the hold by force (Client.Break). The page
//     docs/guarantees.md in the repository says what each backend survives.
//
// Pass term.Token to the storage that the leader writes to, and let it refuse a token smaller than one it has seen: see package
// github.com/lockport/lockport/fence. Only that excludes a late write of an earlier leader.
//
// There may also be no leader: after one has died, until its TTL has passed; during a backoff pause; and while the server cannot be reached.
//
// # What is guaranteed
//
//   - Fn's context ends at least TTL/20 + 10 ms before another process can lead, unless MaxHold ends it. Package lockport computes that as for
//     every lock; if it does not hold for a backend, the backend's page says so first.
//   - Without MaxHold, the lock is never released while fn runs, even if ctx has ended. Until fn returns, the lock is renewed while the server answers.
//   - A call of Run calls fn once at a time. Tokens rise from term to term, if the backend has tokens.
//
// All this is about fn itself. Goroutines and processes that fn starts must have ended when it returns.
package leader
