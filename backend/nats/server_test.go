package nats

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
	"github.com/lockport/lockport/internal/lab/servers"
)

func TestMain(m *testing.M) {
	play.WorkerMain()
	peer.Main(m, 0)
}

var one, three = on("nats", "one NATS server", 1), on("nats-cluster", "three NATS servers", 3)

func on(name, title string, n int) *environment.Environment {
	return &environment.Environment{
		Name: name, Title: title, Backend: "nats", TTL: minTTL, Margin: minTTL/20 + 10*time.Millisecond, Tokens: true,
		Start: func(ctx context.Context) (environment.Servers, error) {
			s, err := servers.StartNATS(ctx, n)
			if err != nil {
				return nil, err
			}
			c := &cluster{s}
			if err := c.Heal(ctx); err != nil {
				return nil, errors.Join(err, errors.New(c.Log()), c.Close())
			}
			return c, nil
		},
	}
}

// cluster implements environment.Servers.
type cluster struct {
	*servers.Group[*servers.Server]
}

func (c *cluster) Nodes() []*servers.Server { return c.Servers }

// at provides a connection, and a context that ends: a watch on a silent server would wait for ever.
func (c *cluster) at(ctx context.Context, use func(ctx context.Context, js jetstream.JetStream) error) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	nc, err := natsgo.Connect(strings.Join(c.Addrs(), ","), natsgo.ErrorHandler(func(*natsgo.Conn, *natsgo.Subscription, error) {}))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	return use(ctx, js)
}

// Heal returns when every server has the whole bucket. It creates a missing one.
func (c *cluster) Heal(ctx context.Context) error {
	if err := environment.Revive(ctx, c.Nodes()...); err != nil {
		return err
	}
	return servers.Poll(ctx, func(ctx context.Context) error {
		return c.at(ctx, func(ctx context.Context, js jetstream.JetStream) error {
			n := len(c.Nodes())
			failed := CreateBucket(ctx, js, Options{}, n)
			s, err := js.Stream(ctx, "KV_lockport")
			if err = errors.Join(failed, err); err != nil {
				return err
			}
			if cl := s.CachedInfo().Cluster; n > 1 && (cl == nil || cl.Leader == "" || len(cl.Replicas) != n-1 ||
				slices.ContainsFunc(cl.Replicas, func(p *jetstream.PeerInfo) bool { return !p.Current || p.Offline })) {
				return fmt.Errorf("the bucket's replicas are not current: %+v", cl)
			}
			return nil
		})
	})
}

func (c *cluster) withKeys(ctx context.Context, use func(ctx context.Context, kv jetstream.KeyValue) error) error {
	return c.at(ctx, func(ctx context.Context, js jetstream.JetStream) error {
		kv, err := js.KeyValue(ctx, "lockport")
		if err != nil {
			return err
		}
		return use(ctx, kv)
	})
}

func (c *cluster) Remove(ctx context.Context, name string) error {
	return c.withKeys(ctx, func(ctx context.Context, kv jetstream.KeyValue) error {
		if _, err := kv.Get(ctx, keyOf(name)); errors.Is(err, jetstream.ErrKeyNotFound) {
			return environment.ErrNotHeld
		}
		return kv.Purge(ctx, keyOf(name))
	})
}

func (c *cluster) Overwrite(ctx context.Context, name string) error {
	return c.withKeys(ctx, func(ctx context.Context, kv jetstream.KeyValue) error {
		return peer.ErrOf(kv.Put(ctx, keyOf(name), []byte("somebody else")))
	})
}

// Leftovers omits the markers, which stay until they expire.
func (c *cluster) Leftovers(ctx context.Context, prefix string) (left []string, err error) {
	err = c.withKeys(ctx, func(ctx context.Context, kv jetstream.KeyValue) error {
		keys, err := kv.Keys(ctx)
		if errors.Is(err, jetstream.ErrNoKeysFound) {
			return nil
		}
		left = slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, keyOf(prefix)) })
		return err
	})
	return left, err
}

func (c *cluster) Restart(ctx context.Context, keepData bool) error {
	return errors.Join(environment.AtOnce(c.Nodes(), func(n *servers.Server) error {
		if err := n.Kill(); err != nil || keepData {
			return err
		}
		return n.WipeData()
	}), c.Heal(ctx))
}

// Leader returns the server that leads the bucket.
func (c *cluster) Leader(ctx context.Context) (i int, err error) {
	err = servers.Poll(ctx, func(ctx context.Context) error {
		return c.at(ctx, func(ctx context.Context, js jetstream.JetStream) error {
			s, err := js.Stream(ctx, "KV_lockport")
			if err != nil {
				return err
			}
			return peer.ErrOf(fmt.Sscanf(s.CachedInfo().Cluster.Leader, "n%d", &i))
		})
	})
	return i, err
}

// Four processes lock and fence while the leader of three servers is killed, is paused until another leads, or loses its disk.
func TestCells(t *testing.T) {
	t.Parallel()
	r, seed := three.Need(t), rand.Uint64()>>16
	for fault, harm := range map[string]func(c *cluster, i int) error{
		"leader-killed": func(c *cluster, i int) error { return c.Nodes()[i].Kill() },
		"leader-paused": func(c *cluster, i int) error { return c.Nodes()[i].Freeze() },
		"leader-wiped":  func(c *cluster, i int) error { return c.Nodes()[i].RestartEmpty(t.Context()) },
	} {
		t.Run(fault, func(t *testing.T) {
			p, err := play.Play(t.Context(), r, &play.Cell{Fault: fault, Outcome: report.Safe, Script: play.Storm(func(s *play.Phase) {
				c := s.Environment.Servers.(*cluster)
				i := play.Must(c.Leader(s.Ctx))
				s.Injected()
				play.Check(harm(c, i))
				play.Must(c.Leader(s.Ctx)) // the next leader
			})}, seed)
			require.NoError(t, err, "seed %d", seed)
			require.Empty(t, peer.Must(faults.Judge(p))(t).Breaches, "seed %d", seed)
		})
	}
}
