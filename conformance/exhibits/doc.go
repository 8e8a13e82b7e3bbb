// Package exhibits is a collection of locks that are broken, each in one way in which real ones are, so that the package
// conformance can be held against them: a suite that passes a broken lock proves nothing. Nobody should use them for
// anything else.
//
// Each exhibit is a backend over the memory of the process, behind a Wire that can be broken like a network. The same Wire with
// nothing broken behind it passes every case that needs no other process.
package exhibits
