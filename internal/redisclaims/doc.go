// Package redisclaims is what the backends on Redis share of the client's side: which claims it has under way, waiting or held, and
// what the servers have to tell of them, on one connection to each server for all of them.
package redisclaims
