package table

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// claim is a claim, and the lease when it is granted.
type claim struct {
	b     *Backend
	req   driver.Request
	grant driver.Grant
}

// column is how the table has a name: as it is, save that a zero byte, which no text in Postgres has, is \0, and a backslash \\.
func column(name string) string { return strings.NewReplacer("\x00", `\0`, `\`, `\\`).Replace(name) }

func nameOf(column string) string {
	return strings.NewReplacer(`\0`, "\x00", `\\`, `\`).Replace(column)
}

// args are the arguments of the statements about one claim. Of an abandoned one, the random part of its owner is remembered.
func argsOf(req driver.Request) args {
	return args{"name": column(req.Name), "owner": req.Owner, "id": req.Owner[:min(len(req.Owner), 32)], "ttl": micros(req.TTL)}
}

// micros is a TTL for a server whose clock may have a grain of a millisecond.
func micros(ttl time.Duration) int64 { return ttl.Microseconds() + 1000 }

// maxTTL is far above what makes sense, and far below what overflows.
const maxTTL = math.MaxInt64 / 4

// TryAcquire implements driver.Backend, in one statement where the name is free, otherwise with a second one, which asks who has it.
func (b *Backend) TryAcquire(ctx context.Context, req driver.Request) (driver.Lease, error) {
	if req.TTL <= 0 || req.TTL > maxTTL {
		return nil, fmt.Errorf("%w: TTL %v is not from 1ms to %v", driver.ErrRefused, req.TTL, time.Duration(maxTTL))
	}
	_, again := b.late.LoadOrStore(req.Owner, true)
	sent := time.Now()
	a, err := b.run(ctx, driver.ErrUnknown, b.dialect.take, argsOf(req))
	if !errors.Is(err, driver.ErrUnknown) && !again {
		b.late.Delete(req.Owner)
	}
	if err != nil {
		return nil, err
	}
	token := a.id
	if len(a.rows) > 0 {
		token = number(a.rows[0][0])
	}
	switch {
	case token > driver.MaxToken:
		return nil, fmt.Errorf("%w: the table gives %d, which is no token: is the server's clock right?", driver.ErrUnknown, token)
	case token > 0:
		if rand.N(pruneOneIn) == 0 {
			b.prune(ctx)
		}
		return &claim{b, req, driver.Grant{Token: uint64(token), Until: sent.Add(req.TTL)}}, nil
	}
	a, err = b.run(ctx, driver.ErrUnavailable, look, argsOf(req))
	switch {
	case err != nil:
		return nil, err
	case len(a.rows) > 0 && a.rows[0][abandoned] != "0":
		return nil, fmt.Errorf("%w: this claim was abandoned", driver.ErrRefused)
	case len(a.rows) == 0 || !status(a.rows[0]).Held:
		return nil, &driver.HeldError{ExpiresIn: time.Millisecond} // it has become free meanwhile
	}
	st := status(a.rows[0])
	return nil, &driver.HeldError{ExpiresIn: time.Until(st.Expires), Holder: st}
}

func number(text string) int64 {
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// release ends a claim.
const release = "UPDATE {table} SET owner = '', expires = {now} WHERE name = :name AND owner = :owner AND expires > {now}"

// Abandon implements driver.Backend. A claim that may still be on its way is remembered in the row of its name, so that it is not granted when it arrives: for a
// minute at least, unless a thousand others of that name are abandoned meanwhile.
func (b *Backend) Abandon(ctx context.Context, req driver.Request) error {
	statement := release
	if _, late := b.late.Load(req.Owner); late {
		statement = b.dialect.bury
	}
	_, err := b.run(ctx, driver.ErrUnknown, statement, argsOf(req))
	if err == nil {
		b.late.Delete(req.Owner)
	}
	return err
}

// Grant implements driver.Lease.
func (c *claim) Grant() driver.Grant { return c.grant }

// Release implements driver.Lease, in one statement.
func (c *claim) Release(ctx context.Context) error {
	a, err := c.b.run(ctx, driver.ErrUnknown, release, argsOf(c.req))
	if _, late := c.b.late.Load(c.req.Owner); late && err == nil { // it was asked for twice, and the first request was not answered
		err = c.b.Abandon(ctx, c.req)
	}
	if err == nil && a.changed == 0 {
		err = errLost
	}
	return err
}

// errLost is what it means that no row of the claim was found.
var errLost = fmt.Errorf("%w: its row has another owner, or its TTL has passed", driver.ErrLost)

// Detach implements driver.Attacher.
func (b *Backend) Detach(ctx context.Context, lease driver.Lease) error {
	var results [1]driver.Renewal
	b.RenewBatch(ctx, []driver.Lease{lease}, results[:])
	return results[0].Err
}

// Attach implements driver.Attacher, in one statement.
func (b *Backend) Attach(ctx context.Context, req driver.Request, owner string, token uint64) (driver.Lease, error) {
	named := argsOf(req)
	named["old"], named["token"] = owner, int64(token)
	b.late.Store(req.Owner, true)
	sent := time.Now()
	a, err := b.run(ctx, driver.ErrUnknown, "UPDATE {table} SET owner = :owner, expires = {now} + :ttl "+
		"WHERE name = :name AND owner IN (:old, :owner) AND token = :token AND expires > {now} AND {find}(abandoned, :id) = 0", named)
	if !errors.Is(err, driver.ErrUnknown) {
		b.late.Delete(req.Owner)
	}
	if err == nil && a.changed == 0 {
		err = errLost
	}
	if err != nil {
		return nil, err
	}
	return &claim{b, req, driver.Grant{Token: token, Until: sent.Add(req.TTL)}}, nil
}
