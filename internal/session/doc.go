// Package session holds locks that belong to a session of a database: the advisory locks of Postgres and the GET_LOCK of MySQL and MariaDB.
// It is what the backends for these share; they say through the interfaces Server and Conn how a session is opened and spoken to.
//
// Many locks live on one session. Its end ends them all, and is told at once. Requests of many goroutines go to the server together. Such locks are
// re-entrant on their session, and giving one back asks for no owner; so the engine keeps a table of its own of what each session has or may have, never asks for a key
// twice, and never gives one back twice.
package session
