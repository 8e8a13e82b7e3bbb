// Package history keeps what worker processes did with locks and what was done to them, and judges it by belief, by tokens and by time.
package history
