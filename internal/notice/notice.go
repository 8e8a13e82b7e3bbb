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

// List collects notices about several servers; of each ID it keeps one, the first known risk if there is any.
type List []driver.Notice

// Add appends each notice whose ID is not in the list yet. An unknown risk is replaced.
func (l *List) Add(more ...driver.Notice) {
	for _, add := range more {
		i := slices.IndexFunc(*l, func(have driver.Notice) bool { return have.ID == add.ID })
		switch {
		case i < 0:
			*l = append(*l, add)
		case (*l)[i].Unknown:
			(*l)[i] = add
		}
	}
}

// ClockOffset returns how far, at least, a server's clock is ahead of this machine's; negative: behind. The server reported at in answer to a request
// sent at before, whose reply arrived at after.
func ClockOffset(before, at, after time.Time) time.Duration {
	switch {
	case at.Before(before):
		return at.Sub(before)
	case at.After(after):
		return at.Sub(after)
	}
	return 0
}

// Clock warns of a server whose clock is a second or more ahead of this machine's, or behind it if ahead is negative.
func Clock(ahead time.Duration) []driver.Notice {
	if ahead.Abs() < time.Second {
		return nil
	}
	return []driver.Notice{{ID: "clock-offset",
		Text: fmt.Sprintf("The server's clock and this machine's differ by %v: one of them is not synchronized. Locks expire by the server's clock; "+
			"if it is set forward, they end too soon.", ahead.Round(10*time.Millisecond)),
		Remedy: "Synchronize both clocks (chrony, ntpd, systemd-timesyncd), by slewing rather than stepping."}}
}

// Quorum warns of a cluster with so few voting members that none may fail.
func Quorum(voters int) []driver.Notice {
	if voters >= 3 {
		return nil
	}
	return []driver.Notice{{ID: "quorum",
		Text:   fmt.Sprintf("The cluster needs all its voting members (%d): while one is down, no lock can be acquired or kept.", voters),
		Remedy: "Use three or five."}}
}

// Members is Quorum, and warns of a larger cluster of which this client knows one server alone.
func Members(voters, known int) []driver.Notice {
	if few := Quorum(voters); few != nil || known != 1 {
		return few
	}
	return []driver.Notice{{ID: "endpoints",
		Text:   fmt.Sprintf("This client knows one of %d servers, and loses its locks when that one is down.", voters),
		Remedy: "Add the others."}}
}

// Connections warns if a server has fewer than need connections left, or less than a tenth of limit. limit <= 0: no limit.
func Connections(used, limit, need int) []driver.Notice {
	if limit <= 0 || limit-used >= max(need, limit/10) {
		return nil
	}
	return []driver.Notice{{ID: "connections",
		Text: fmt.Sprintf("%d of the server's %d connections are in use. A client that loses its connection and cannot open another loses its locks.",
			used, limit),
		Remedy: "Raise the limit, or close connections that are not needed."}}
}

// Replication warns of replicas of a server that does not replicate its locks. locks is what the server calls them.
func Replication(replicas int, locks string) []driver.Notice {
	if replicas <= 0 {
		return nil
	}
	return []driver.Notice{{ID: "replication",
		Text: fmt.Sprintf("The server does not replicate %[2]s to its replicas (%[1]d). A promoted replica grants locks that are held here; "+
			"if this server is partitioned but alive, both grant.", replicas, locks),
		Remedy: "Stop the old primary before another is promoted (STONITH), and check fencing tokens on every write; etcd and ZooKeeper keep locks across a fail-over."}}
}

// InTheClear warns of a password that is used without TLS at addresses other than this machine's.
func InTheClear(addresses ...string) []driver.Notice {
	remote := slices.DeleteFunc(slices.Clone(addresses), isLocal)
	if len(remote) == 0 {
		return nil
	}
	return []driver.Notice{{ID: "password-in-the-clear",
		Text: fmt.Sprintf("A password is used without TLS (at %s). Anyone who reads or alters the traffic can acquire, keep and end any lock.",
			strings.Join(remote, ", ")),
		Remedy: "Use TLS."}}
}

// isLocal reports whether an address, which may be a socket's path, is on this machine.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	return host == "" || host == "localhost" || strings.HasPrefix(host, "/") || net.ParseIP(host).IsLoopback()
}
