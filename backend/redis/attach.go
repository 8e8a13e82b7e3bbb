package redis

import (
	"context"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// Detach implements driver.Attacher.
func (b *Backend) Detach(ctx context.Context, lease driver.Lease) error {
	_, err := driver.Renew(ctx, b, lease)
	if err == nil {
		b.claims.Leave(lease.(*claim))
	}
	return err
}

// Attach implements driver.Attacher. One request compares the lock's value and sets the new one.
func (b *Backend) Attach(ctx context.Context, req driver.Request, owner string, token uint64) (lease driver.Lease, err error) {
	c, err := b.claims.Enter(req)
	if err != nil {
		return nil, err
	}
	sent := time.Now()
	r := c.run(ctx, redisscript.Attach, c.ms(), redisscript.Value(owner), token)
	if reply, _ := r.Value.([]any); r.Err == nil && len(reply) == 2 {
		b.claims.Leave(c)
		return nil, lost(reply[1])
	}
	lease, err = b.outcome(ctx, c, sent, r)
	b.claims.Answered(c, false, err)
	return lease, err
}
