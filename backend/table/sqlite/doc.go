// Package sqlite tests the backend table on SQLite. It is a module of its own, so that nobody who uses lockport is given a driver of SQLite.
package sqlite
