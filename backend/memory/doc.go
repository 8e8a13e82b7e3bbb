// Package memory implements locks in the memory of one process: for tests, and for programs that run as one process today and perhaps as several
// later.
//
// # Guarantees
//
//   - Exclusion among all Backends that share a Server: from the grant of a claim until its release, or until its TTL has passed since its last
//     renewal, nobody else is granted the name.
//   - Tokens rise strictly, over all names, while the Server lives.
//   - First in, first out: the step that frees a name grants it to the longest waiting claim. A newcomer cannot come between.
//   - A holder whose claim is broken, or removed by Server.Lose, is told before that call returns.
//   - A holder is told when another client begins to wait.
//   - A claim repeated with the same owner is not granted twice. A late or repeated release does not affect the next holder.
//   - While idle, nothing runs: no goroutines, and one timer for each name with waiters. In a testing/synctest bubble, all time is the bubble's.
//
// # Non-guarantees
//
//   - Nothing is shared with other processes, and nothing survives this one.
//   - A waiting claim whose client disappears, without Abandon or Close, is granted in its turn and keeps the name for its TTL.
//
// # URL
//
// "memory:" is one server for the whole process, "memory:NAME" another for each NAME: as with every backend, equal URLs mean the same locks. The only
// parameter is ttl. For a server of your own, as in a test, call NewServer.
//
// # Server requirements
//
// None.
//
// # In tests
//
// A Server can take a name from its holder, telling it (Lose) or not (LoseSilently). Package memorytest has clients whose calls fail, are delayed,
// lose their reply or are cut off.
package memory
