// Package worker runs this program again, in processes of their own: workers that do as they are told, until their parent kills, freezes or ends them.
//
// [Process] is such a process and its lines of JSON. [Kind] builds orders and answers on it. A worker never outlives its parent, whatever ends that.
// The package imports the standard library alone, so that the package conformance can use it.
package worker
