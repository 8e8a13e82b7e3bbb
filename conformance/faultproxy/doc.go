// Package faultproxy is a TCP proxy that breaks on command, for tests: it cuts, freezes and delays connections, and
// swallows the reply to a chosen request. It listens on a free port of 127.0.0.1 and forwards to one target at a time.
//
// It gives a driver's conformance test the faults of the network. Put a proxy before your server, and pass what
// [Group.Faults] makes of it to the suite:
//
//	proxy, err := faultproxy.New("localhost:1234")
//	…
//	faults := faultproxy.Group{proxy}.Faults(isOp) // isOp tells requests apart by their bytes
//	faults.Remove = remove                         // and what else you can do to the server itself
//	conformance.Test(t, conformance.Config{Open: open, Target: proxy.Addr(), Direct: "localhost:1234", Faults: faults})
//
// If one URL names several servers, [ForURL] puts a proxy before each of them.
//
// # Requests
//
// A request is what one Read from the client returned. Most clients write a command, or a whole pipeline, with one write
// and then wait for its reply, so a request here is a command or a pipeline there. A protocol that multiplexes or splits its
// writes (HTTP/2, large values) has no such correspondence.
//
// Faults add up, and [Proxy.Restore] ends them all. Bytes that were already on their way into a socket when a fault
// was called may still arrive. Whatever a peer sends after the call returned meets the fault.
package faultproxy
