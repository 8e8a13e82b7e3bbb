// Package redischeck has the checks of a server that the Redis backends share.
package redischeck
