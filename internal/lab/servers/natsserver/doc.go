// Package natsserver pins the NATS server that the tests of backend/nats start, as etcdserver pins etcd: it is the tool of this module.
package natsserver
