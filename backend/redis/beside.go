package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisscript"
)

// beside says that the claim holds its name beside others: that of a reader, or one for a permit.
func (c *claim) beside() bool { return c.Req.Shared || c.Req.Permits > 0 }

// call makes a call of a script for readers or permits, with what its arguments have behind the owner and the number of permits.
func (c *claim) call(script *redisscript.Script, argv ...any) []any {
	return script.Call(c.b.besideKeys(c.b.layout.Key(c.Req.Name), c.Req.Permits), append([]any{c.Req.Owner, c.Req.Permits}, argv...)...)
}

// besideKeys are the keys of such a script, for the readers of a lock or, with permits, for the permits of its name.
func (b *Backend) besideKeys(lock string, permits int) []string {
	k, holders := b.keysOf(lock), readersKey
	if permits > 0 {
		k.queue, holders = redisscript.Side(lock, permitsQueueKey), permitsKey
	}
	return append(k.all(), redisscript.Side(lock, holders))
}

// contends tells the readers of the name, for which c waits as a writer, after a reply that said that readers have it.
func (b *Backend) contends(ctx context.Context, c *claim) {
	_ = b.pipe.Run(ctx, redisscript.Contend, c.call(redisscript.Contend), false) // if it is lost: c looks again, and readers ask
}

// renewBeside renews those leases at that are readers' or have permits: in one script or, in a Cluster, in pipelines of one for each.
func (b *Backend) renewBeside(ctx context.Context, leases []driver.Lease, results []driver.Renewal, at []int) {
	calls := make([][]any, len(at))
	for i, j := range at {
		c := leases[j].(*claim)
		calls[i] = c.call(redisscript.RenewBeside, c.ms())
	}
	sent := time.Now()
	for i, r := range b.pipe.RunAll(ctx, redisscript.RenewBeside, calls, b.o.Replicas > 0) {
		c, outcome := leases[at[i]].(*claim), any(int64(1))
		switch reply := r.Value.(type) {
		case int64:
			if reply > 0 && c.Req.Contended != nil {
				c.Req.Contended()
			}
		case []any:
			outcome = reply[0]
		}
		results[at[i]] = c.renewed(sent, outcome, r)
	}
}

// besideStatus makes a status of what beside_inspect.lua replied for name.
func besideStatus(name string, shared bool, r redisscript.Reply) (driver.Status, error) {
	reply, _ := r.Value.([]any)
	n := numbers(reply)
	if r.Err == nil && (n[0] < 0 || n[1] < 0) {
		r.Err = fmt.Errorf("%w: the script replied %v", driver.ErrUnknown, r.Value)
	}
	if r.Err != nil || len(reply) < 4 { // nobody has it
		return driver.Status{Name: name, Waiters: int(n[1])}, r.Err
	}
	var all []driver.Status
	for holder := range slices.Chunk(reply[2:], 2) {
		st := driver.Status{Name: name, Held: true, Shared: shared, Permits: int(n[0]), Waiters: int(n[1])}
		st.Owner, _ = holder[0].(string)
		ms, _ := holder[1].(int64)
		st.Expires = time.Now().Add(time.Duration(ms) * time.Millisecond)
		all = append(all, st)
	}
	all[0].Others = all[1:]
	return all[0], nil
}
