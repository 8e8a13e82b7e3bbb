// Package exhibits is a collection of broken locks. Each has one fault that real locks have. They test package conformance: a
// suite that passes a broken lock proves nothing. Do not use them for anything else.
//
// All are made of one sound lock: a client of the memory backend, behind faults like those of a network. An exhibit replaces
// one of its steps. The sound lock passes every case that needs no other process.
package exhibits
