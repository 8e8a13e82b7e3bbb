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
	// Call carries a call of the method of Backend, or of "Release", and returns what the client gets. The call reaches the server when Call calls
	// serve, which returns the server's error. The end of serve's context ends a call that waits at the server.
	Call(ctx context.Context, method string, serve func(context.Context) error) error
	// Tell runs a callback of the server's once it reaches the client, without waiting for that.
	Tell(callback func())
}

// direct is a Network without faults.
type direct struct{}

func (direct) Call(ctx context.Context, _ string, serve func(context.Context) error) error {
	return serve(ctx)
}
func (direct) Tell(callback func()) { callback() }

// New returns a client of o.Server. Package memorytest has clients with faults on demand.
func New(o Options, opts ...lockport.Option) (*lockport.Client, error) {
	return lockport.New(NewBackend(o), opts...)
}
