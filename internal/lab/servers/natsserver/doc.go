// Package natsserver pins the NATS server that the tests of backend/nats start. It is this module's tool, like etcd in etcdserver.
package natsserver
