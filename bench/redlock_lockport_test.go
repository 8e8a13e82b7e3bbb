package bench

import (
	"context"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/redlock"
)

func lockportRedlock(b *testing.B, nodes []*goredis.Client) library {
	client, err := redlock.New(nodes, redlock.Options{}, lockport.Logger(nil))
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, client.Close()) })
	ctx := context.Background()
	return library{"lockport", func(name string) error {
		l, err := client.Acquire(ctx, name)
		if err != nil {
			return err
		}
		return l.Release(ctx)
	}}
}
