package lib

import (
	"context"
	"errors"

	"github.com/go-zookeeper/zk"
)

func init() {
	register(Library{
		Name: "create, delete", Family: "zookeeper", Kind: Floor, Module: zkModule,
		How: "create of an ephemeral node, and delete", Renewal: WithServer,
		Open: func(ctx context.Context, c Config) (Locker, error) { return openBareZK(ctx, c) },
	})
}

func openBareZK(ctx context.Context, c Config) (bareZK, error) {
	conn, err := zkConn(ctx, c)
	if err != nil {
		return bareZK{}, err
	}
	_, err = conn.Create("/bench-floor", nil, 0, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) {
		err = nil
	}
	return bareZK{conn}, err
}

type bareZK struct{ *zk.Conn }

// Acquire does not wait.
func (z bareZK) Acquire(ctx context.Context, name string) (Hold, error) { return z.Try(ctx, name) }

func (z bareZK) Try(_ context.Context, name string) (Hold, error) {
	path := "/bench-floor/" + name
	_, err := z.Create(path, nil, zk.FlagEphemeral, zk.WorldACL(zk.PermAll))
	if errors.Is(err, zk.ErrNodeExists) {
		return nil, ErrHeld
	}
	return &zkNode{z, path}, err
}

func (z bareZK) Close() error {
	z.Conn.Close()
	return nil
}

type zkNode struct {
	bareZK
	path string
}

func (n *zkNode) Release(context.Context) error { return n.Delete(n.path, -1) }
