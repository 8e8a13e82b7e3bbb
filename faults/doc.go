// Package faults shows what each backend does when machines and networks fail: worker processes lock on real servers while one fault after the other is
// injected, and their history is judged. Its table, the cells of every [Environment], states for each fault what happens to a lock. Tests check
// that from both sides: what is called safe must never be seen to fail, and what is called unsafe must be seen to.
package faults
