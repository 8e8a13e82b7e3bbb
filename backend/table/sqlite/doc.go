// Package sqlite tests the backend table on SQLite. It is a module of its own, so that lockport's users get no SQLite driver.
package sqlite
