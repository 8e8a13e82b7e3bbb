// Package memorytest breaks the memory backend on demand, so that you can test how your program behaves when its locks do.
//
// A [Backend] is a client of a [memory.Server] whose calls fail, are delayed, lose their reply or do not get through, as its [Faults] say. The
// server takes locks away from their holders by [memory.Server.Lose]. With testing/synctest such a test needs no real time.
package memorytest
