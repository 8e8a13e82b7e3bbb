// Package play runs phases: worker processes hold locks in an environment while a fault is injected, or follow a script through one interleaving. The
// result is a history, which others judge. Package play names no backend: the program must import those that its workers open.
package play
