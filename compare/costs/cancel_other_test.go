//go:build !linux

package costs

import "testing"

// children cannot be known here.
func children(*testing.T) []string { return nil }

func requireNoMore(*testing.T, []string) {}
