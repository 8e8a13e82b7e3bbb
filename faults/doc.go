// Package faults shows what each backend does when the world does not behave: worker processes lock on real servers while a
// scheduler of faults breaks one thing after the other, and the history that they write is judged. Its table, the cells of every
// [Arrangement], states for each fault what happens to a lock, and the tests check that from both sides: what is called
// safe must never be seen to fail, what is called unsafe must be seen to.
//
// The arrangements and their faults are in faults/worlds; judging by linearizability is in faults/linear.
package faults
