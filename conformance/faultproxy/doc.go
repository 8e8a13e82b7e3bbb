// Package faultproxy is a TCP proxy that fails on command, for tests. It cuts, freezes and delays connections, and drops the
// reply to a chosen request. It listens on a free port of 127.0.0.1 and forwards to one target at a time.
//
// It gives a driver's conformance test the faults of the network. Put a proxy before your server, and pass
// [Group.Faults] to the suite:
//
//	proxy, err := faultproxy.New("localhost:1234")
//	…
//	faults := faultproxy.Group{proxy}.Faults(isOp) // isOp tells requests apart by their bytes
//	faults.Remove = remove                         // and other faults of the server itself
//	conformance.Test(t, conformance.Config{Open: open, Target: proxy.Addr(), Direct: "localhost:1234", Faults: faults})
//
// If one URL names several servers, [ForURL] puts a proxy before each of them.
//
// # Requests
//
// A request is the bytes that one Read from the client returned. Most clients send a command or a whole pipeline in one write
// and wait for its reply, so a request is a command or a pipeline. This does not hold for protocols that multiplex or split
// their writes (HTTP/2, large values).
//
// Faults add up, and [Proxy.Restore] ends them all. Bytes that were already on their way into a socket when a fault began may
// still arrive. The fault affects all bytes that a peer sends after the call returned.
package faultproxy
