// Package memory keeps locks in the memory of one process: for tests, and for programs that run as one process and may one day
// not.
//
// # Guarantees
//
//   - Exclusion among all Backends that share a Server: from the grant of a claim until its release or until its TTL has passed
//     since its last renewal, nobody else is granted the name.
//   - Tokens rise strictly, over all names, for as long as the Server lives.
//   - First in, first out: the claim that has waited longest is granted the name in the same step that frees it. A newcomer
//     cannot come between.
//   - A holder whose claim is broken, or removed by Server.Lose, is told before that call returns.
//   - A holder is told when somebody begins to wait through another client.
//   - A claim that is made again with the same owner is not granted twice. A late or repeated release changes nothing of the
//     next holder's.
//   - Nothing runs when nothing is asked: no goroutines, and one timer for each name that somebody waits for. Inside a
//     testing/synctest bubble all time is the bubble's.
//
// # Non-guarantees
//
//   - Nothing is shared with other processes, and nothing survives this one.
//   - A claim that waits, and whose client neither comes back nor abandons it nor is closed, is granted the name in its turn and
//     keeps it for its TTL.
//
// # URL
//
// "memory:" is one server for the whole process, "memory:NAME" another for each NAME: as with every backend, equal URLs mean
// the same locks. There are no parameters but ttl. A server of one's own, as a test wants it, is made with NewServer.
//
// # Server requirements
//
// None.
//
// # Example
//
//	client, err := memory.New(memory.Options{})
//	…
//	lock, err := client.Acquire(ctx, "nightly-report")
//
// # In tests
//
// A Server takes a name from its holder, who is told (Lose) or is not (LoseSilently). Package memorytest has clients whose calls fail, are delayed, lose
// their reply or do not get through.
package memory
