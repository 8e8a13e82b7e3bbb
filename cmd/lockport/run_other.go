//go:build !linux && !darwin

package main

import (
	"context"
	"os"
	"runtime"
)

// hiddenStages: lockport starts itself for run only.
var hiddenStages map[string]func(c *console, args []string) error

// runVerb refuses: process groups, and killing them for certain, need Linux or macOS.
func runVerb(_ context.Context, _ *console, args []string) error {
	if _, err := parseRun(args); err != nil {
		return err
	}
	return failf(exitCannotStart, "run is not available on %s: it needs Linux or macOS", runtime.GOOS)
}

// isTerminal says whether f is a terminal.
func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
