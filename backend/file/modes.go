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

// takeReader returns the reader file and the record of a reader that shares main. driver.ErrHeld: another claim locks main exclusively meanwhile.
func (b *Backend) takeReader(main *lockFile, req driver.Request) (own *lockFile, r record, err error) {
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
		r.held, r.owner = false, req.Owner
		if err := main.write(r, req.Name); err != nil {
			return nil, r, err
		}
		if err := main.tryShare(); err != nil {
			return nil, r, err
		}
		return b.takeReader(main, req) // a writer may have come and gone between the locks
	}
	last := main.record
	if last.held || time.Since(main.info.ModTime()) > pruneEvery { // a writer died, or the file would look unused. All readers write the same.
		last.held = false
		if err := main.write(last, req.Name); err != nil {
			return nil, r, err
		}
	}
	own, _, err = b.takeFree(req.Name, reader, 0, mostReaders)
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
func (b *Backend) takePermit(gate *lockFile, req driver.Request) (own *lockFile, r record, err error) {
	if err := b.setPermits(gate, req); err != nil {
		return nil, r, err
	}
	n := req.Permits
	own, i, err := b.takeFree(req.Name, permit, rand.N(n), n)
	if err != nil {
		return nil, r, err
	}
	if r, err = own.next(); err == nil {
		r.token, err = gate.after(r.token)
	}
	for other := range n {
		if err == nil && other != i {
			r.token, err = b.tokenAfter(r.token, numbered(req.Name, permit, other+1))
		}
	}
	r.token += uint64(n) - (r.token+uint64(n-i))%uint64(n) // concurrent claims differ in the remainder
	return own, r, err
}

// after returns token, or one more than that of f's record if that is greater.
func (f *lockFile) after(token uint64) (uint64, error) {
	err := f.read()
	return max(token, f.record.token+1), err
}

// tokenAfter is after for a file that may be missing.
func (b *Backend) tokenAfter(token uint64, file string) (_ uint64, err error) {
	err = b.look(file, os.O_RDWR, func(f *lockFile) (err error) { token, err = f.after(token); return err })
	return token, err
}

// setPermits makes sure that the gate records req's number of permits. Concurrent claims share the gate and write the same, unless they ask for
// different numbers. Then only the next claim is refused.
func (b *Backend) setPermits(gate *lockFile, req driver.Request) error {
	_, n := gate.readLine() // 0: unknown
	if n == req.Permits && time.Since(gate.info.ModTime()) < pruneEvery {
		return nil
	}
	if n != 0 && n != req.Permits {
		st, err := b.holders(permit, driver.Status{Name: req.Name}, nil)
		if err != nil {
			return err
		}
		// The holder may have changed the number since it was read.
		if _, now := gate.readLine(); st.Held && now != req.Permits {
			return driver.OtherPermits(now, req.Permits)
		}
	}
	if err := gate.read(); err != nil {
		return err
	}
	last := record{token: gate.record.token, since: time.UnixMicro(0), owner: permit} // the same for concurrent claims
	for i := req.Permits; i < n; i++ {
		var err error
		if last.token, err = b.tokenAfter(last.token, numbered(req.Name, permit, i+1)); err != nil {
			return err
		}
	}
	if last.token > gate.record.token {
		if err := gate.writeRecord(last); err != nil {
			return err
		}
	}
	return gate.writeLine(gateLine(req.Name, req.Permits))
}

// takeFree locks one of the count files of a kind that is not locked, beginning with number first, and returns its number i. Both count from 0.
// driver.ErrHeld: there is none.
func (b *Backend) takeFree(name, kind string, first, count int) (_ *lockFile, i int, err error) {
	for tried := range count {
		i = (first + tried) % count
		f, err := lockAt(b.path(numbered(name, kind, i+1)), nil, (*lockFile).tryLock)
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
