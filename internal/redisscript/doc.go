// Package redisscript is shared by the Redis backends: the layout of locks in keys and values, the Lua scripts, pipelines that carry the
// calls of many goroutines, and the classes of server errors.
package redisscript
