package etcd

import "github.com/lockport/lockport/internal/examine"

// defects are errors of etcd that endanger locks, as its changelogs and issues have them.
var defects = []examine.Defect{
	{
		From: examine.Version{3, 5, 0}, Fixed: examine.Version{3, 5, 3},
		Text: "a member that is killed under load can come back with data that differ from the others', and grant a lock that is held",
		Link: "https://github.com/etcd-io/etcd/issues/13766",
	},
	{
		From: examine.Version{3, 5, 0}, Fixed: examine.Version{3, 5, 6},
		Text: "a member that crashes while it is defragmented can come back with other revisions, which are the fencing tokens",
		Link: "https://github.com/etcd-io/etcd/pull/14733",
	},
	{From: examine.Version{3, 4, 0}, Fixed: examine.Version{3, 4, 21}, Text: single, Link: "https://github.com/etcd-io/etcd/pull/14423"},
	{From: examine.Version{3, 5, 0}, Fixed: examine.Version{3, 5, 5}, Text: single, Link: "https://github.com/etcd-io/etcd/pull/14424"},
	{From: examine.Version{3, 4, 20}, Fixed: examine.Version{3, 4, 22}, Text: joined, Link: "https://github.com/kubernetes/kubernetes/pull/114093"},
	{From: examine.Version{3, 5, 5}, Fixed: examine.Version{3, 5, 6}, Text: joined, Link: "https://github.com/etcd-io/etcd/pull/14648"},
	{From: examine.Version{3, 4, 0}, Fixed: examine.Version{3, 4, 31}, Text: revoked, Link: "https://github.com/etcd-io/etcd/pull/17465"},
	{From: examine.Version{3, 5, 0}, Fixed: examine.Version{3, 5, 13}, Text: revoked, Link: "https://github.com/etcd-io/etcd/pull/17425"},
	{From: examine.Version{3, 4, 0}, Fixed: examine.Version{3, 4, 31}, Text: unseen, Link: "https://github.com/etcd-io/etcd/pull/17610"},
	{From: examine.Version{3, 5, 0}, Fixed: examine.Version{3, 5, 13}, Text: unseen, Link: "https://github.com/etcd-io/etcd/pull/17612"},
	{From: examine.Version{3, 4, 0}, Fixed: examine.Version{3, 4, 32}, Text: backwards, Link: "https://github.com/etcd-io/etcd/pull/17864"},
	{From: examine.Version{3, 5, 0}, Fixed: examine.Version{3, 5, 14}, Text: backwards, Link: "https://github.com/etcd-io/etcd/pull/17865"},
}

// What went wrong in two lines of versions, and was corrected in both.
const (
	single    = "a single member can forget what it has acknowledged, a lock say, when it crashes"
	joined    = "where authentication is on, a member that is added can have other data than the rest"
	revoked   = "a leader that was deposed and has not noticed revokes leases that its successor has kept alive"
	unseen    = "a watch can miss an event when etcd is compacted, so that a holder is told late that its key was deleted"
	backwards = "after a crash while it is compacted, revisions, which are the fencing tokens, can go back"
)
