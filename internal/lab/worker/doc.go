// Package worker runs copies of this program as worker processes. Workers carry out orders until their parent kills, freezes or ends them.
//
// A [Kind] of workers answers orders, in lines of JSON. [Run] starts any other program. Both end when this process ends, however it ends. The
// package imports the standard library alone, so that the package conformance can use it.
package worker
