// Package exhibits is a collection of broken locks. Each is broken in one way in which real locks are. They test the package
// conformance: a suite that passes a broken lock proves nothing. Do not use them for anything else.
//
// All are made of one sound lock: a client of the memory backend, behind faults like those of a network. An exhibit takes one of its steps
// another way. The sound lock passes every case that needs no other process.
package exhibits
