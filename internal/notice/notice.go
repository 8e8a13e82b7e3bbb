// Package notice holds the driver.Notice texts that the Check of several backends share.
package notice

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// List collects notices about several servers, the first of each ID.
type List []driver.Notice

// Add appends each notice whose ID is not in the list yet.
func (l *List) Add(more ...driver.Notice) {
	for _, add := range more {
		if !slices.ContainsFunc(*l, func(have driver.Notice) bool { return have.ID == add.ID }) {
			*l = append(*l, add)
		}
	}
}

// ClockTolerance is the difference up to which two clocks count as synchronised.
const ClockTolerance = time.Second

// ClockOffset returns how far a server's clock is ahead of this machine's, at least; a negative offset is behind. The server
// reported at in answer to a request sent at before, whose reply arrived at after.
func ClockOffset(before, at, after time.Time) time.Duration {
	switch {
	case at.Before(before):
		return at.Sub(before)
	case at.After(after):
		return at.Sub(after)
	}
	return 0
}

// Clock warns of a server whose clock is so much ahead of this machine's, or behind it.
func Clock(ahead time.Duration) []driver.Notice {
	if ahead.Abs() < ClockTolerance {
		return nil
	}
	return []driver.Notice{{ID: "clock-offset",
		Text: fmt.Sprintf("The server's clock is off this machine's by %v: one of them is not synchronised. Locks expire by the server's clock; "+
			"setting it forward ends them too soon.", ahead.Round(10*time.Millisecond)),
		Remedy: "Synchronise both clocks (chrony, ntpd, systemd-timesyncd), by slewing rather than stepping."}}
}

// Quorum warns of a cluster with so few voting members that none may fail.
func Quorum(voters int) []driver.Notice {
	if voters >= 3 {
		return nil
	}
	return []driver.Notice{{ID: "quorum",
		Text:   fmt.Sprintf("The cluster has %d voting member(s), so that no lock can be taken or kept while one is away.", voters),
		Remedy: "Use three or five."}}
}

// Connections warns when a server has fewer than need connections left, or less than a tenth of limit. No limit: zero or less.
func Connections(used, limit, need int) []driver.Notice {
	if limit <= 0 || limit-used >= max(need, limit/10) {
		return nil
	}
	return []driver.Notice{{ID: "connections",
		Text: fmt.Sprintf("%d of the server's %d connections are in use. A client that loses its connection and gets no other loses its locks.",
			used, limit),
		Remedy: "Raise the limit, or close connections that are not needed."}}
}

// Replication warns about replicas of a server whose locks, as it calls them, are not replicated.
func Replication(replicas int, locks string) []driver.Notice {
	if replicas <= 0 {
		return nil
	}
	return []driver.Notice{{ID: "replication",
		Text: fmt.Sprintf("The server has %d replica(s), which know nothing of %s. One that is promoted grants locks that are held here; "+
			"while this server lives cut off, both grant.", replicas, locks),
		Remedy: "Stop the old primary before another is promoted (STONITH), and check fencing tokens where it matters; etcd and ZooKeeper keep locks across a fail-over."}}
}

// InTheClear warns about a password that is used without TLS at addresses other than this machine's.
func InTheClear(addresses ...string) []driver.Notice {
	remote := slices.DeleteFunc(slices.Clone(addresses), isLocal)
	if len(remote) == 0 {
		return nil
	}
	return []driver.Notice{{ID: "password-in-the-clear",
		Text: fmt.Sprintf("A password is used without TLS (to %s). Whoever reads and alters what is sent can acquire, keep and end any lock.",
			strings.Join(remote, ", ")),
		Remedy: "Use TLS."}}
}

// isLocal reports whether an address, a socket's path included, leads to this machine.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasPrefix(host, "/") || ip != nil && ip.IsLoopback()
}
