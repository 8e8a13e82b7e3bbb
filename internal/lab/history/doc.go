// Package history keeps what worker processes did with locks and what was done to them, and judges it: by what they believed, by their tokens, by how long it
// took.
package history
