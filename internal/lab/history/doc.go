// Package history records what worker processes did with locks and what was done to them, and judges it by belief, tokens and time.
package history
