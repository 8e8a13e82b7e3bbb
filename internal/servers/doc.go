// Package servers finds and starts real lock servers, for tests, benchmarks and comparisons. Nothing else in the project
// starts one.
//
// Servers are children of this process on free ports of 127.0.0.1, each with a temporary folder of its own and, unless
// asked otherwise, without persistence. They never outlive the process, not even its kill -9: on Linux the kernel
// sees to that, elsewhere a watching shell does. Only the temporary folder may then be left behind.
//
// Constructors return when the server answers; their context bounds the start alone. A program that is not installed is
// a [*NotInstalled], which says what to install. Servers are safe for concurrent use.
//
// Tests call the Need functions, which skip or fail where a server is missing.
package servers
