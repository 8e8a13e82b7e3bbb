package memory

import "github.com/lockport/lockport"

// Options configures a Backend. Its zero value is a client of a Server of its own.
type Options struct {
	// Server keeps the locks. Backends that share one contend with each other. nil: a new one.
	Server *Server
}

// New returns a client of o.Server. Package memorytest has clients whose calls fail when you say so.
func New(o Options, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.New(NewBackend(o), opts...)
}
