// Package articles is a collection of other people's broken locks, as drivers on real servers. Most are locks on Redis that
// articles teach, rewritten, each with one fault that its article shows or overlooks. The others are bugs in locks of other
// projects, past or present (see Libraries). The named cases of package conformance must catch each. Do not use them for
// anything else.
//
// Each is a sound lock with one step replaced, so what fails is the fault. The locks of etcd's and go-zookeeper's own clients are
// used unchanged: they are sound if each claim has its own session. docs/testing.md explains the hazards H1 to H15 and the
// numbers of the articles.
package articles
