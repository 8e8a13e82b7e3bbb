// Package libraries is a collection of bugs that locks of other projects have or had, each as a driver on a real server, so that the package
// conformance can be held against what has really happened to people. Nobody should use them for anything else.
//
// The locks of etcd's and go-zookeeper's own clients are driven as they are. The driver is sound if each claim has a session of its own, which ends
// with it; the bugs are in what several claims share. OpenSound opens it without the bug, so that what a case finds in the one and not in the other is
// the bug. The bugs of libraries for Redis are in the package articles, with the lock that they are made of.
//
// No server is started here: whoever opens an exhibit says where one is.
package libraries
