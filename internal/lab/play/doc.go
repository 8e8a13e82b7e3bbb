// Package play runs phases: worker processes that hold locks in an environment while a fault is injected, or that are led through one interleaving. What they did
// is a history, for others to judge. It names no backend: the program that plays must import those that its workers open.
package play
