// Package linear judges a history of holds by linearizability (M. Herlihy, J. Wing, Linearizability, 1990), with porcupine: is there one order in
// which a lock that is never given to two, and whose tokens rise, could have done what was seen? It sees more than overlapping belief: a lock
// that the server granted anew too early is a mistake also where its first holder had been killed, or had just stopped believing.
package linear
