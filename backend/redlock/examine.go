package redlock

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/examine"
	"github.com/lockport/lockport/internal/redischeck"
	"github.com/lockport/lockport/internal/redisscript"
)

var _ driver.Examiner = (*Backend)(nil)

// connectionsNeeded is how many connections a client has to a node: one that listens, one that carries requests, and some that check.
const connectionsNeeded = 4

// nodeExam is what was found of one node.
type nodeExam struct {
	addr    string
	server  redischeck.Server
	durable bool // each write is on disk before it is acknowledged
	notices redischeck.Notices
	err     error
}

// Examine implements driver.Examiner. Nodes that do not answer are left out, as long as a majority does: Check has told of them.
func (b *Backend) Examine(ctx context.Context, ttl time.Duration) (driver.Examination, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*maxNodeTimeout)
	defer cancel()
	exams := make([]*nodeExam, len(b.nodes))
	var all sync.WaitGroup
	for i := range b.nodes {
		all.Go(func() { exams[i] = b.examineNode(ctx, i, ttl) })
	}
	all.Wait()
	var answered []*nodeExam
	var away []failure
	for i, e := range exams {
		if e.err != nil {
			away = append(away, b.nodes[i].failed(redischeck.Explain(e.err)))
			continue
		}
		answered = append(answered, e)
	}
	if len(answered) < b.quorum {
		return driver.Examination{}, fmt.Errorf("%w: %s", driver.ErrUnavailable, b.missing(away))
	}
	found := judgeNodes(answered, ttl)
	found.Server = fmt.Sprintf("%d nodes, %s", len(b.nodes), answered[0].server.Name)
	var plainly []string
	for _, n := range b.nodes {
		if o := n.client.Options(); o.Password != "" && o.TLSConfig == nil {
			plainly = append(plainly, n.addr)
		}
	}
	found.Notices = append(found.Notices, examine.InTheClear(plainly)...)
	found.Notices = append(found.Notices, sameHost(hostsOf(ctx, b.nodes))...)
	return found, nil
}

func (b *Backend) examineNode(ctx context.Context, i int, ttl time.Duration) *nodeExam {
	n := b.nodes[i]
	done := make(chan *nodeExam, 1)
	err := redisscript.Guard(ctx, func() error {
		e := &nodeExam{addr: n.addr}
		e.server, e.err = redischeck.Examine(ctx, n.client, "Node "+n.addr+": ", ttl, connectionsNeeded, &e.notices)
		if e.err == nil && e.server.Info["aof_enabled"] == "1" {
			e.durable = n.client.ConfigGet(ctx, "appendfsync").Val()["appendfsync"] == "always"
		}
		done <- e
		return e.err
	})
	if err != nil {
		return &nodeExam{addr: n.addr, err: err}
	}
	return <-done
}

// judgeNodes puts together what was found of the nodes, each kind of notice once.
func judgeNodes(exams []*nodeExam, ttl time.Duration) driver.Examination {
	var all redischeck.Notices
	slow, fast := exams[0], exams[0]
	for _, e := range exams {
		all.Add(e.notices.List...)
		if e.server.Ahead < slow.server.Ahead {
			slow = e
		}
		if e.server.Ahead > fast.server.Ahead {
			fast = e
		}
		seconds, err := strconv.Atoi(e.server.Info["uptime_in_seconds"])
		if up := time.Duration(seconds) * time.Second; err == nil && !e.durable && up < ttl {
			all.Add(driver.Notice{ID: "restarted",
				Text: fmt.Sprintf("Node %s was started %v ago and does not have every write on disk: it may have forgotten votes that still count, and vote a second time.",
					e.addr, up),
				Remedy: "Keep a node that has crashed away for longer than the longest TTL; wait that long now before you trust it."})
		}
	}
	if apart := fast.server.Ahead - slow.server.Ahead; apart >= examine.ClockTolerance {
		all.Add(driver.Notice{ID: "clock-offset",
			Text: fmt.Sprintf("The clock of node %s is %v ahead of that of node %s: at least one is not synchronised, and may be set at any time; a lock expires by the node's clock, "+
				"and one that is set forward votes a second time.", fast.addr, apart.Round(10*time.Millisecond), slow.addr),
			Remedy: "Synchronise the nodes' clocks (chrony, ntpd, systemd-timesyncd), by slewing rather than stepping."})
	}
	return driver.Examination{Notices: all.List}
}

// hostsOf are the machines of nodes, as far as their addresses tell.
func hostsOf(ctx context.Context, nodes []*node) map[string][]string {
	hosts := make(map[string][]string) // the addresses of the nodes on each
	for _, n := range nodes {
		host, _, err := net.SplitHostPort(n.addr)
		if err != nil {
			continue
		}
		if ips, err := net.DefaultResolver.LookupHost(ctx, host); err == nil && len(ips) > 0 {
			host = ips[0]
		}
		hosts[host] = append(hosts[host], n.addr)
	}
	return hosts
}

// sameHost is the notice about nodes that are on one machine.
func sameHost(hosts map[string][]string) []driver.Notice {
	var most []string
	for _, addrs := range hosts {
		if len(addrs) > len(most) || len(addrs) == len(most) && strings.Join(addrs, ",") < strings.Join(most, ",") {
			most = addrs
		}
	}
	if len(most) < 2 {
		return nil
	}
	return []driver.Notice{{ID: "same-host",
		Text: fmt.Sprintf("The nodes %s are on one machine: they fail, lose their data and have their clock set together, so that they are no more than one vote.",
			strings.Join(most, " and ")),
		Remedy: "Run each node on a machine of its own."}}
}
