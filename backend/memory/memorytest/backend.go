package memorytest

import "github.com/lockport/lockport/backend/memory"

// Backend is a [memory.Backend] with faults between it and its server. All methods may be called concurrently.
type Backend struct {
	*Faults // never nil
	*memory.Backend
}

// NewBackend returns a client of server, for lockport.New. nil: a new server, or faults of its own.
func NewBackend(server *memory.Server, faults *Faults) *Backend {
	if faults == nil {
		faults = new(Faults)
	}
	return &Backend{faults, memory.NewBackend(memory.Options{Server: server, Network: faults})}
}
