// Package redisscript is what the backends on Redis share: how a lock is laid out in keys and values, how many goroutines'
// scripts go to a server as one pipeline, and what a server's error says about the fate of a script.
package redisscript
