package memory

import (
	"context"

	"github.com/lockport/lockport"
)

// Options configures a Backend. Its zero value is a client of a Server of its own.
type Options struct {
	// Server keeps the locks. Backends that share one contend with each other. nil: a new one.
	Server *Server

	// Network stands between the client and its Server. nil: nothing does. Package memorytest has one that fails on demand.
	Network Network
}

// Network carries calls to a Server and back. Its methods may be called concurrently.
type Network interface {
	// Send carries a call of the method of Backend, or of "Release", to the server, and returns when it has arrived. An error says that it has not, and is
	// what the client gets. The end of arrived ends a call that waits at the server. reply, called once with the server's error or nil, carries the answer back:
	// what it returns is what the client gets.
	Send(ctx context.Context, method string) (arrived context.Context, reply func(error) error, err error)
	// Tell runs a callback of the server's when it gets through to the client, and does not wait for that.
	Tell(callback func())
}

// New returns a client of o.Server. Package memorytest has clients whose calls fail when you say so.
func New(o Options, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.New(NewBackend(o), opts...)
}
