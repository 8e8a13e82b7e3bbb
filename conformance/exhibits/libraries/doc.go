// Package libraries is a collection of bugs that locks of other projects have or had, each as a driver on a real server, so that the package
// conformance can be held against what has really happened to people. Nobody should use them for anything else.
//
// The lock of etcd's and go-zookeeper's own client is driven as it is. The other bugs are written anew, in a few lines, on the plain client of
// the server: each is a sound lock of which one step was replaced, and OpenSound opens the same lock with nothing replaced, so that what a case
// finds in the one and not in the other is the bug.
//
// No server is started here: whoever opens an exhibit says where one is.
package libraries
