// Package tools is a nested module that pins the programs that check the project, so that the library does not depend on them. Run one as `go tool
// -modfile=tools/go.mod NAME`, as scripts/lint.sh does.
package tools
