// Package worker runs this program again, in processes of their own: workers that do as they are told, until their parent kills, freezes or ends them.
//
// A [Kind] of workers answers orders, in lines of JSON. [Run] starts any other program. Neither outlives this process, whatever ends that.
// The package imports the standard library alone, so that the package conformance can use it.
package worker
