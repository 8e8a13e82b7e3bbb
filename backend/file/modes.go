package file

import (
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/lockport/lockport/driver"
)

// A writer locks the file of the name exclusively, readers lock it shared. Its record is that of the last writer. Each reader locks a file of its
// own, exclusively, with its record. That file is for Inspect: it decides nothing.
//
// The holder of a permit locks one of the name's permit files exclusively. A further file, the gate, records the number of permits, and has the
// turnstile of the waiters. A claim shares it while it tries. If the number has fallen, the gate's record has the greatest token of the files that
// are no longer permits.

// mostReaders is the greatest number of reader files of a name.
const mostReaders = 1 << 16

// takeReader returns the reader file and the record of c, which shares main. driver.ErrHeld: another claim locks main exclusively meanwhile.
func (c *claim) takeReader() (own *lockFile, r record, err error) {
	main := c.main
	if err := main.read(); err != nil {
		return nil, r, err
	}
	if main.slot < 0 { // it writes a first record, locked exclusively
		if err := main.tryLock(); err != nil {
			return nil, r, err
		}
		if r, err = main.next(); err != nil {
			return nil, r, err
		}
		r.held, r.owner = false, c.req.Owner
		if err := main.write(r, c.req.Name); err != nil {
			return nil, r, err
		}
		if err := main.tryShare(); err != nil {
			return nil, r, err
		}
		return c.takeReader() // a writer may have come and gone between the locks
	}
	last := main.record
	if last.held { // a writer died. All readers write the same.
		last.held = false
		if err := main.write(last, c.req.Name); err != nil {
			return nil, r, err
		}
	}
	own, _, err = c.takeFree(reader, 0, mostReaders)
	r = record{held: true, token: last.token + 1, since: time.Now()}
	if err != nil {
		return nil, r, err
	}
	if err = own.read(); err == nil && !r.since.After(own.record.since) { // the clock was set back
		r.since = own.record.since.Add(time.Microsecond)
	}
	return own, r, err
}

// takePermit returns the file and the record of a free permit. driver.ErrHeld: there is none.
func (c *claim) takePermit() (own *lockFile, r record, err error) {
	if err := c.setPermits(); err != nil {
		return nil, r, err
	}
	n := c.req.Permits
	own, i, err := c.takeFree(permit, rand.N(n), n)
	if err == nil {
		r, err = own.next()
	}
	if err != nil {
		return own, r, err
	}
	last, err := c.lastToken(0, n)
	r.token = max(r.token, last+1)
	r.token += uint64(n) - (r.token+uint64(n-i))%uint64(n) // concurrent claims differ in the remainder
	return own, r, err
}

// setPermits makes sure that the gate records c's number of permits. Concurrent claims share the gate and write the same, unless they ask for
// different numbers. Then only the next claim is refused.
func (c *claim) setPermits() error {
	gate, ours := c.main, c.req.Permits
	_, n := gate.readLine() // 0: unknown
	if n == ours {
		return nil
	}
	if n != 0 {
		st, err := c.backend.holders(permit, driver.Status{Name: c.req.Name}, nil)
		if err != nil {
			return err
		}
		// The holder may have changed the number since it was read.
		if _, now := gate.readLine(); st.Held && now != ours {
			return driver.OtherPermits(now, ours)
		}
	}
	last, err := c.lastToken(ours, n)
	if err == nil && last > gate.record.token {
		err = gate.writeRecord(record{token: last, since: time.UnixMicro(0), owner: "permit"}) // the same for concurrent claims
	}
	if err == nil {
		err = gate.writeLine(gateLine(c.req.Name, ours))
	}
	return err
}

// lastToken reads the gate, and returns the greatest token there and in the name's permit files from number first to end-1. Both count from 0.
func (c *claim) lastToken(first, end int) (last uint64, err error) {
	err = c.main.read()
	last = c.main.record.token
	for i := first; err == nil && i < end; i++ {
		err = c.backend.look(numbered(c.req.Name, permit, i+1), os.O_RDWR, func(f *lockFile) error {
			err := f.read()
			last = max(last, f.record.token)
			return err
		})
	}
	return last, err
}

// takeFree locks one of the name's count files of a kind that is not locked, beginning with number first, and returns its number i. Both count from 0.
// driver.ErrHeld: there is none.
func (c *claim) takeFree(kind string, first, count int) (_ *lockFile, i int, err error) {
	for tried := range count {
		i = (first + tried) % count
		f, err := lockAt(c.backend.path(numbered(c.req.Name, kind, i+1)), nil, (*lockFile).tryLock)
		if err == nil {
			return f, i, nil
		}
		f.close()
		if !errors.Is(err, driver.ErrHeld) {
			return nil, i, err
		}
	}
	return nil, i, driver.ErrHeld
}
