package memory

import "github.com/lockport/lockport"

// Options configures a Backend. Its zero value is a client, with no fault set, of a Server of its own.
type Options struct {
	// Server keeps the locks. Backends that share one contend with each other. nil: a new one.
	Server *Server
	// Faults is what goes wrong between this client and the server; it may be shared with other Backends, which the same
	// faults then strike. nil: its own.
	Faults *Faults
}

// New returns a client of o.Server. Its Backend method returns the *Backend, to drive as a fake.
func New(o Options, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.New(NewBackend(o), opts...)
}
