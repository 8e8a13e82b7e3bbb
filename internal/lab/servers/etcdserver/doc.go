// Package etcdserver pins the current etcd server that the tests can start, as tools pins the linter: it is the tool of
// this module. The package servers has it built when a test first asks for it; nothing here is compiled into the library.
package etcdserver
