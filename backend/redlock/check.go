package redlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/notice"
	"github.com/lockport/lockport/internal/redisscript"
)

// Check implements driver.Checker. If a minority of the nodes does not serve, that is a notice. A node that serves but is unfit for a majority
// is an error.
func (b *Backend) Check(ctx context.Context) ([]driver.Notice, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*maxNodeTimeout)
	defer cancel()
	found := make([]*nodeCheck, len(b.nodes))
	errs := b.each(func(i int, n *node) error {
		c := &nodeCheck{}
		err := redisscript.Guard(ctx, func() error { return b.askNode(ctx, n, c) })
		if ctx.Err() != nil {
			return fmt.Errorf("%w: %s", driver.ErrUnavailable, noAnswer) // askNode still uses c
		}
		found[i] = c
		return redisscript.Explain("it", err)
	})
	return b.judge(found, errs)
}

// nodeCheck is what was found on one node.
type nodeCheck struct {
	runID   string
	notices notice.List
}

const independent = "Redlock nodes must be independent"

var remedies = redisscript.Remedies{
	Restart: "Set appendonly yes and appendfsync always, or keep a crashed node away for longer than the longest TTL.",
	Replica: independent, Cluster: independent,
}

// askNode checks a node's settings and role, and tries the scripts' commands on it.
func (b *Backend) askNode(ctx context.Context, n *node, c *nodeCheck) error {
	info, err := redisscript.CheckServer(ctx, n.pipe.Client, remedies, &c.notices)
	if err != nil {
		return err
	}
	c.runID = info["run_id"]
	if info["aof_enabled"] == "1" {
		switch n.pipe.Client.ConfigGet(ctx, "appendfsync").Val()["appendfsync"] {
		case "always":
		case "":
			c.notices.Add(driver.Notice{ID: "persistence", Unknown: true,
				Text:   "The node does not say whether it writes each change to disk (appendfsync always); if not, a crash can make it grant locks again.",
				Remedy: "Allow CONFIG GET (+config|get), or check it yourself. " + remedies.Restart})
		default:
			c.notices.Add(driver.Notice{ID: "persistence",
				Text:   "The node writes to disk some time after it grants a lock: a crash can make it forget its latest grants, and grant them again.",
				Remedy: remedies.Restart})
		}
	}
	if replicas := info["connected_slaves"]; replicas != "0" && replicas != "" {
		c.notices.Add(driver.Notice{ID: "replication",
			Text:   "The node has connected replicas. One that takes its place may lack locks, which amounts to a restart without data.",
			Remedy: "Let no replica take a node's place (no Sentinel, no fail-over) within the longest TTL."})
	}
	tried := n.run(ctx, maxNodeTimeout, redisscript.Check, b.layout.Keys(redisscript.CheckName()))
	return redisscript.Tried(tried, &c.notices)
}

// judge combines what was found on each node, and the errors.
func (b *Backend) judge(found []*nodeCheck, errs []error) ([]driver.Notice, error) {
	var all notice.List
	servers := make(map[string]string)
	for i, c := range found {
		addr := b.nodes[i].addr
		switch {
		case errors.Is(errs[i], driver.ErrRefused):
			return nil, fmt.Errorf("%w: the node %s: %s", driver.ErrRefused, addr, reason(errs[i]))
		case errs[i] != nil:
			continue
		}
		if other := servers[c.runID]; other != "" && c.runID != "" {
			return nil, fmt.Errorf("%w: the nodes %s and %s are one server, which would have two votes: give each node once",
				driver.ErrRefused, other, addr)
		}
		servers[c.runID] = addr
		for _, n := range c.notices {
			n.Text = "Node " + addr + ": " + n.Text
			all.Add(n)
		}
	}
	if err := b.majority(errs); err != nil {
		return nil, err
	}
	if n, why := b.byReason(errs); n > 0 {
		all.Add(driver.Notice{ID: "nodes-away",
			Text:   fmt.Sprintf("Nodes that do not serve: %d of %d (%s). %d more may fail.", n, len(b.nodes), why, len(b.nodes)-n-b.quorum),
			Remedy: "Bring them back. Keep one that may have lost its data away until the longest TTL has passed."})
	}
	var clear []string
	for _, n := range b.nodes {
		if o := optionsOf(n.pipe.Client); o != nil && o.Password != "" && o.TLSConfig == nil {
			clear = append(clear, n.addr)
		}
	}
	all.Add(notice.InTheClear(clear...)...)
	return all, nil
}
