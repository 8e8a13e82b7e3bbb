// Package redisclaims is the client side shared by the Redis backends: the registry of their claims, and the subscriptions, one connection
// per server, on which the scripts notify claims.
package redisclaims
