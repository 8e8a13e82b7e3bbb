package zookeeper

import (
	"time"

	"github.com/lockport/lockport/internal/examine"
)

// defects are errors of ZooKeeper that endanger locks, as its release notes and corrections have them. All are in how several servers agree.
var defects = []examine.Defect{
	{
		From: examine.Version{3, 5, 0}, Fixed: examine.Version{3, 5, 10},
		Text: "a server that was sent a snapshot by a leader that then crashed can forget what was decided, a lock say (ZOOKEEPER-3642), " +
			"and servers can have different data after a leader's death (ZOOKEEPER-3911)",
		Link: "https://zookeeper.apache.org/doc/r3.5.10/releasenotes.html",
	},
	{From: examine.Version{3, 8, 0}, Fixed: examine.Version{3, 8, 4}, Text: syncing, Link: "https://github.com/apache/zookeeper/pull/2132"},
	{From: examine.Version{3, 9, 0}, Fixed: examine.Version{3, 9, 2}, Text: syncing, Link: "https://github.com/apache/zookeeper/pull/2133"},
	{
		From: examine.Version{3, 9, 0}, Fixed: examine.Version{3, 9, 3},
		Text: "a server that stops following its leader can be left with other data than the rest (ZOOKEEPER-4712)",
		Link: "https://zookeeper.apache.org/doc/r3.9.3/releasenotes.html",
	},
	{
		From: examine.Version{3, 9, 3}, Fixed: examine.Version{3, 9, 4},
		Text: "servers that were behind when they joined can lose what was decided meanwhile (ZOOKEEPER-4925)",
		Link: "https://github.com/apache/zookeeper/pull/2266",
	},
}

const syncing = "a server that is stopped while it catches up with its leader can forget what was decided, a lock say (ZOOKEEPER-4785)"

// maintained is until when lines of versions were. The end of 3.7 was announced at https://zookeeper.apache.org/news; 3.5 and 3.6 ended before.
var maintained = []examine.Maintained{
	{From: examine.Version{3, 5, 0}, Until: examine.EndOf(2024, time.February)},
	{From: examine.Version{3, 8, 0}},
}
