//go:build !linux && !darwin

package main

import (
	"context"
	"os"
	"runtime"
)

// hiddenVerbs is empty: lockport starts itself for run only.
var hiddenVerbs map[string]func(c *console, args []string) error

// runVerb fails: process groups that can be killed reliably need Linux or macOS.
func runVerb(_ context.Context, _ *console, args []string) error {
	if _, err := parseRun(args); err != nil {
		return err
	}
	return failf(exitCannotStart, "run is not available on %s: it needs Linux or macOS", runtime.GOOS)
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
