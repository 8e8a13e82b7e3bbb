package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// A member that is cut off serves nothing until Heal. The others go on, under a new leader if necessary.
func TestCutFromQuorum(t *testing.T) {
	t.Run("etcd", func(t *testing.T) {
		t.Parallel()
		c := NeedEtcdCluster(t, EtcdOptions{Cuttable: true})
		testCut(t, &c.quorumGroup, put, get)
	})
	t.Run("zookeeper", func(t *testing.T) {
		t.Parallel()
		e := NeedEnsemble(t, ZooKeeperOptions{})
		testCut(t, &e.quorumGroup, zkPut, zkGet)
	})
}

func testCut[N member](t *testing.T, q *quorumGroup[N], put func(context.Context, N, string) error, get func(context.Context, N) (string, error)) {
	old, err := q.Leader(t.Context())
	require.NoError(t, err)
	q.CutFromQuorum(old)
	var next int
	soon(t, func(ctx context.Context) (err error) {
		if next, err = q.Leader(ctx); err == nil && next == old {
			err = errors.New("it leads still")
		}
		return err
	})
	soon(t, func(ctx context.Context) error { return put(ctx, q.Nodes[next], "v") })
	soon(t, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := get(ctx, q.Nodes[old]); err == nil {
			return errors.New("a node that is cut off serves")
		}
		return nil
	})
	q.Heal()
	for _, n := range q.Nodes {
		soon(t, func(ctx context.Context) error {
			got, err := get(ctx, n)
			if err == nil && got != "v" {
				err = fmt.Errorf("%s has %q", n.Addr(), got)
			}
			return err
		})
	}
}

func put(ctx context.Context, e *Etcd, value string) error {
	return e.Use(ctx, func(c *clientv3.Client) error { _, err := c.Put(ctx, "k", value); return err })
}

func get(ctx context.Context, e *Etcd) (value string, err error) {
	err = e.Use(ctx, func(c *clientv3.Client) error {
		reply, err := c.Get(ctx, "k")
		if err == nil && len(reply.Kvs) > 0 {
			value = string(reply.Kvs[0].Value)
		}
		return err
	})
	return value, err
}

// zkPut, zkGet and zkUse use new sessions: one that was lost with the data cannot be resumed.
func zkPut(ctx context.Context, z *ZooKeeper, value string) error {
	return zkUse(ctx, z, func(conn *zk.Conn) error {
		if _, err := conn.Create("/k", []byte(value), 0, zk.WorldACL(zk.PermAll)); !errors.Is(err, zk.ErrNodeExists) { // created by a try whose answer was lost
			return err
		}
		return nil
	})
}

func zkGet(ctx context.Context, z *ZooKeeper) (value string, err error) {
	err = zkUse(ctx, z, func(conn *zk.Conn) error {
		_, err1 := conn.Sync("/k")
		data, _, err2 := conn.Get("/k")
		if value = string(data); errors.Is(err2, zk.ErrNoNode) {
			return err1
		}
		return errors.Join(err1, err2)
	})
	return value, err
}

func zkUse(ctx context.Context, z *ZooKeeper, f func(conn *zk.Conn) error) error {
	conn, _, err := zk.Connect([]string{z.Addr()}, 5*time.Second, zk.WithLogger(log.New(io.Discard, "", 0)), zk.WithDialer(DialZooKeeper))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Close)()
	return f(conn)
}
