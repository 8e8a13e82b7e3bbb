package file

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/lockport/lockport/driver"
)

// A lock file begins with two slots of one line each, padded with spaces to slotSize: a disk sector, and within one page, so that
// a write of it is not torn. They are written in turn, never the one that counts: a crash in the middle leaves the other. After
// them stands the lock's name, quoted, in a line of its own.
const (
	slotSize   = 512
	headerSize = 2 * slotSize
	magic      = "lockport/1"
)

// record is what a slot says.
type record struct {
	held  bool
	token uint64
	since time.Time
	owner string // of the present or last holder
}

// isOfHolder reports whether r, of a file that is locked, is of its holder. A record of a process that has died was left behind: a program that does
// not write to the file has locked it since.
func (r record) isOfHolder() bool {
	c, ok := driver.OwnerClaimant(r.owner)
	if host, err := os.Hostname(); !r.held || !ok || err != nil || host != c.Host {
		return r.held // of another machine's processes, or containers', nothing is known
	}
	p, err := os.FindProcess(c.PID)
	if err != nil {
		return false
	}
	defer p.Release()
	return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

// newer says that r was written after o: each token is written as held, and then, unless its holder dies, as free.
func (r record) newer(o record) bool {
	return r.token > o.token || r.token == o.token && !r.held && o.held
}

// encode is the slot that says r.
func (r record) encode() []byte {
	b := append(make([]byte, 0, slotSize), magic...)
	if r.held {
		b = append(b, " held token="...)
	} else {
		b = append(b, " free token="...)
	}
	b = strconv.AppendUint(b, r.token, 10)
	b = strconv.AppendInt(append(b, " since="...), r.since.UnixMicro(), 10)
	b = append(append(b, " owner="...), r.owner...)
	b = appendSum(b, crc32.ChecksumIEEE(b))
	for len(b) < slotSize-1 {
		b = append(b, ' ')
	}
	return append(b, '\n')
}

// appendSum appends what ends a line.
func appendSum(b []byte, sum uint32) []byte {
	return hex.AppendEncode(append(b, " crc="...), binary.BigEndian.AppendUint32(nil, sum))
}

// decode reads a slot; ok is false if it is not a valid one.
func decode(slot []byte) (r record, ok bool) {
	line, sum, found := bytes.Cut(bytes.TrimRight(slot, " \n"), []byte(" crc="))
	if !found || !bytes.Equal(append([]byte(" crc="), sum...), appendSum(nil, crc32.ChecksumIEEE(line))) {
		return record{}, false
	}
	fields := strings.Fields(string(line))
	if len(fields) != 5 || fields[0] != magic {
		return record{}, false
	}
	token, err1 := strconv.ParseUint(strings.TrimPrefix(fields[2], "token="), 10, 64)
	since, err2 := strconv.ParseInt(strings.TrimPrefix(fields[3], "since="), 10, 64)
	r = record{held: fields[1] == "held", token: token, since: time.UnixMicro(since), owner: strings.TrimPrefix(fields[4], "owner=")}
	return r, err1 == nil && err2 == nil && token > 0
}

// readRecord reads the record that counts and says in which slot it stands, -1 if neither is valid.
func readRecord(f *os.File) (record, int, error) {
	header := make([]byte, headerSize)
	n, err := f.ReadAt(header, 0)
	if err != nil && err != io.EOF {
		return record{}, -1, err
	}
	var last record
	at := -1
	for i := range 2 {
		if end := (i + 1) * slotSize; end <= n {
			if r, ok := decode(header[end-slotSize : end]); ok && (at < 0 || r.newer(last)) {
				last, at = r, i
			}
		}
	}
	return last, at, nil
}

// writeRecord writes r into the slot that is not the one numbered at.
func writeRecord(f *os.File, r record, at int) (int, error) {
	next := (at + 1) % 2
	_, err := f.WriteAt(r.encode(), int64(next)*slotSize)
	return next, err
}

// nameLine is what stands after the slots.
func nameLine(name string) string { return strconv.Quote(name) + "\n" }

// readName reads the lock's name; ok is false if it is damaged.
func readName(f *os.File, file string) (name string, ok bool) {
	line := make([]byte, len(nameLine(""))+4*driver.MaxNameLength)
	n, err := f.ReadAt(line, headerSize)
	if err != nil && err != io.EOF {
		return "", false
	}
	quoted, _, _ := strings.Cut(string(line[:n]), "\n")
	name, err = strconv.Unquote(quoted)
	return name, err == nil && name != "" && FileName(name) == file
}

// nextToken is a token greater than that of last and, where there is no last one because the file is new, was removed or is
// damaged, greater than every one before as far as the clock can tell: all are at least the microseconds since 1970 at which
// they were drawn.
func nextToken(last record, now time.Time) uint64 {
	return max(last.token+1, uint64(max(now.UnixMicro(), 1)))
}

// draw writes the record of a new holder into f, which is locked, and returns it with its slot.
func draw(f *os.File, fi os.FileInfo, req driver.Request, now time.Time) (record, int, error) {
	last, at, err := readRecord(f)
	if err != nil {
		return record{}, 0, err
	}
	if at < 0 && fi.ModTime().After(now) {
		return record{}, 0, fmt.Errorf("%w: %s holds no valid token and was written at %s, after the present time: the clock was set "+
			"back; set it right, or remove the file if nothing remembers its tokens", driver.ErrRefused, f.Name(), fi.ModTime().Format(time.RFC3339))
	}
	r := record{held: true, token: nextToken(last, now), since: now, owner: req.Owner}
	if r.token > driver.MaxToken {
		return record{}, 0, fmt.Errorf("%w: the token in %s is the greatest that there is", driver.ErrRefused, f.Name())
	}
	if line := nameLine(req.Name); fi.Size() != int64(headerSize+len(line)) {
		if _, err := f.WriteAt([]byte(line), headerSize); err != nil {
			return record{}, 0, err
		}
		if err := f.Truncate(int64(headerSize + len(line))); err != nil {
			return record{}, 0, err
		}
	}
	at, err = writeRecord(f, r, at)
	return r, at, err
}
