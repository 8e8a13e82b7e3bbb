package memory

import (
	"context"

	"github.com/lockport/lockport"
)

// Options configures a Backend. Its zero value is a client of a new Server.
type Options struct {
	// Server keeps the locks. Backends that share one contend with each other. nil: a new one.
	Server *Server

	// Network stands between the client and its Server. nil: nothing does. Package memorytest has one that fails on demand.
	Network Network
}

// Network carries calls to a Server and back. Its methods may be called concurrently.
type Network interface {
	// Send carries a call of the method of Backend, or of "Release", to the server, and returns when it has arrived. An error means that it has not, and
	// goes to the client. The end of arrived ends a call that waits at the server. reply, called once with the server's error or nil, carries the answer
	// back, and returns what the client gets.
	Send(ctx context.Context, method string) (arrived context.Context, reply func(error) error, err error)
	// Tell runs a callback of the server's once it reaches the client, without waiting for that.
	Tell(callback func())
}

// New returns a client of o.Server. Package memorytest has clients with faults on demand.
func New(o Options, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.New(NewBackend(o), opts...)
}
