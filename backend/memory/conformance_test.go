package memory_test

import (
	"context"
	"testing"
	"time"

	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

// Package memorytest runs the whole suite, with faults between clients and server.
func TestConformance(t *testing.T) {
	server := memory.NewServer()
	conformance.Test(t, conformance.Config{
		Open: func(context.Context, string) (driver.Backend, error) {
			return memory.NewBackend(memory.Options{Server: server}), nil
		},
		Local:  true,
		MinTTL: 500 * time.Millisecond,
		Faults: conformance.Faults{
			Remove: func(_ context.Context, name string) error { server.Lose(name, nil); return nil },
		},
	}, conformance.Quick())
}
