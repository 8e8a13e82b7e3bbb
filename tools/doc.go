// Package tools is a module of its own that pins the programs the project is checked with, so that they are not among the
// library's dependencies. They run as `go tool -modfile=tools/go.mod NAME`; scripts/lint.sh does so.
package tools
