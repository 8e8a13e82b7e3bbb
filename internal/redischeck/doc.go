// Package redischeck is what the backends on Redis look for in a server before they trust it with locks.
package redischeck
