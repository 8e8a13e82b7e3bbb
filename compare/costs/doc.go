// Package costs measures what locks cost, on servers of our own or on a user's: an uncontended cycle against the bare round trip, contention by many
// clients of several processes, hand-off, takeover after the death of a holder, the gap of a fail-over, and the load of those who wait.
//
// Clients are processes of their own, started from this same binary (see [WorkerMain]), so that nothing is shared between them but the servers. All of
// them read one clock, that of the machine since it was started, so that instants of two processes can be compared.
//
// One scenario runs at a time. Each takes its turns with bare round trips, since a machine is not equally fast at all times: ratios are made of what was
// measured within a turn.
package costs
