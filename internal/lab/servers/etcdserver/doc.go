// Package etcdserver pins the current etcd server that tests can start. The server is this module's tool, as the linter is that of tools. The
// package servers builds it when a test first needs it. Nothing here is compiled into the library.
package etcdserver
