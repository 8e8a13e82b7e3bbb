// Package memorytest breaks the memory backend on demand, so that you can test how your program behaves when its locks do.
//
// A [Backend] is a client of a [memory.Server] whose calls fail, are delayed, lose their reply or are cut off, as its [Faults] demand. The server
// takes locks from their holders with [memory.Server.Lose]. In a testing/synctest bubble, such a test needs no real time.
package memorytest
