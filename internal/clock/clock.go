// Package clock tells the time by which the validity of a lock is measured: that of Go's monotonic clock, so that testing/synctest works, and the time
// for which the machine was suspended, which the monotonic clock omits.
package clock
