// Package articles is a collection of other people's broken locks, as drivers on real servers. Most are locks on Redis that articles
// teach, written anew, each with the one fault for which the article shows it or which it overlooks. The others are bugs that locks
// of other projects have or had (see Libraries). The package conformance must catch each by the cases that it names. Do not use them for
// anything else.
//
// Each is a sound lock of which one step is replaced, so what fails is what is broken. The locks of etcd's and go-zookeeper's own clients
// are used as they are: they are sound if each claim has a session of its own. docs/testing.md explains the hazards H1 to H15 and the numbers of
// the articles.
package articles
