package redis

import (
	"context"
	"fmt"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/examine"
	"github.com/lockport/lockport/internal/redischeck"
	"github.com/lockport/lockport/internal/redisscript"
)

var _ driver.Examiner = (*Backend)(nil)

// connectionsNeeded is how many connections a client has at most: one that listens, and those that carry requests.
const connectionsNeeded = 1 + redisscript.MaxConnections

// Examine implements driver.Examiner.
func (b *Backend) Examine(ctx context.Context, ttl time.Duration) (driver.Examination, error) {
	type result struct {
		found driver.Examination
		err   error
	}
	done := make(chan result, 1)
	err := redisscript.Guard(ctx, func() error {
		found, err := b.examine(ctx, ttl)
		done <- result{found, err}
		return err
	})
	if err != nil {
		return driver.Examination{}, redischeck.Explain(err)
	}
	return (<-done).found, nil
}

func (b *Backend) examine(ctx context.Context, ttl time.Duration) (found driver.Examination, err error) {
	var all redischeck.Notices
	nodes := 0
	err = b.eachNode(ctx, func(ctx context.Context, node goredis.Cmdable) error {
		s, err := redischeck.Examine(ctx, node, "", ttl, connectionsNeeded, &all)
		if err != nil {
			return err
		}
		nodes++
		found.Server = s.Name
		all.Add(examine.Clock("", s.Ahead, "locks expire by the server's, and one that is set forward ends them too soon")...)
		b.lookAtReplicas(&s, &all)
		return nil
	})
	if err != nil {
		return found, err
	}
	switch c := b.client.(type) {
	case *goredis.ClusterClient:
		found.Server += fmt.Sprintf(", a Cluster of %d masters", nodes)
	case *goredis.Client:
		switch {
		case b.sentinels != nil:
			found.Server += ", behind Sentinel"
			b.askSentinels(ctx, &all)
		case c.Options().Addr == "FailoverClient": // go-redis' name for it: the sentinels are known to it alone
			all.Add(sentinelsUnknown)
		case c.Options().Password != "" && c.Options().TLSConfig == nil && c.Options().Network == "tcp":
			all.Add(examine.InTheClear([]string{c.Options().Addr})...)
		}
	}
	found.Notices = all.List
	return found, nil
}

// lookAtReplicas looks at what a master does when its replicas, or other masters, are away.
func (b *Backend) lookAtReplicas(s *redischeck.Server, all *redischeck.Notices) {
	replicas, _ := strconv.Atoi(s.Info["connected_slaves"])
	if replicas > 0 && s.Settings["min-replicas-to-write"] == "0" {
		all.Add(driver.Notice{ID: "min-replicas",
			Text: "A master that is cut off from its replicas goes on granting and renewing locks (min-replicas-to-write is 0), beside the replica that was promoted " +
				"in its place and grants them too.",
			Remedy: "Set min-replicas-to-write 1 and min-replicas-max-lag 10: then it stops after 10 s."})
	}
	if replicas > 0 && replicas == b.o.Replicas {
		all.Add(driver.Notice{ID: "replicas-to-spare",
			Text:   fmt.Sprintf("Each lock waits for %d replica(s), and no more are connected: when one is away, no lock can be taken or kept.", replicas),
			Remedy: "Add a replica, or wait for fewer."})
	}
	if s.Info["cluster_enabled"] == "1" && s.Settings["cluster-require-full-coverage"] == "yes" {
		all.Add(driver.Notice{ID: "cluster-coverage",
			Text: "When any master of the Cluster is away without a replica to take its place, all the others refuse as well (cluster-require-full-coverage yes): " +
				"no lock can be taken or kept.",
			Remedy: "Set cluster-require-full-coverage no: then only the names of that master are affected."})
	}
}

var sentinelsUnknown = driver.Notice{ID: "sentinels", Unknown: true,
	Text:   "No sentinel could be asked, so it is not known how many there are and how many of them begin a fail-over.",
	Remedy: "Look yourself (SENTINEL MASTER name): at least 3, with a quorum of 2."}

// sentinelTime bounds the questions to one sentinel.
const sentinelTime = 2 * time.Second

// askSentinels asks the first sentinel that answers how many there are, and how many of them begin a fail-over.
func (b *Backend) askSentinels(ctx context.Context, all *redischeck.Notices) {
	for _, addr := range b.sentinels.SentinelAddrs {
		if master := b.askSentinel(ctx, addr); master != nil {
			all.Add(judgeSentinels(master)...)
			return
		}
	}
	all.Add(sentinelsUnknown)
}

func (b *Backend) askSentinel(ctx context.Context, addr string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, sentinelTime)
	defer cancel()
	o := b.sentinels
	client := goredis.NewSentinelClient(&goredis.Options{
		Addr: addr, Username: o.SentinelUsername, Password: o.SentinelPassword, TLSConfig: o.TLSConfig, Dialer: o.Dialer,
		MaxRetries: -1, ContextTimeoutEnabled: true, DialTimeout: sentinelTime, DialerRetries: 1,
	})
	defer func() { _ = client.Close() }()
	master, err := client.Master(ctx, o.MasterName).Result()
	if err != nil {
		return nil
	}
	return master
}

// judgeSentinels reads what SENTINEL MASTER says.
func judgeSentinels(master map[string]string) (notices []driver.Notice) {
	others, err := strconv.Atoi(master["num-other-sentinels"])
	quorum, err2 := strconv.Atoi(master["quorum"])
	if err != nil || err2 != nil {
		return []driver.Notice{sentinelsUnknown}
	}
	if others+1 < 3 {
		notices = append(notices, driver.Notice{ID: "sentinels",
			Text: fmt.Sprintf("There are %d sentinel(s): when one is away, nobody takes the place of a master that dies, and no lock can be taken or kept until it is back.",
				others+1),
			Remedy: "Run three sentinels, each on a machine of its own."})
	}
	if quorum < 2 {
		notices = append(notices, driver.Notice{ID: "sentinel-quorum",
			Text: "One sentinel that does not hear the master is enough to begin a fail-over (quorum 1), and each fail-over can forget locks that are held " +
				"and grant them again.",
			Remedy: "SENTINEL SET " + master["name"] + " quorum 2, on every sentinel."})
	}
	return notices
}
