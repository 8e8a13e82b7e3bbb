package file

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// A lock file begins with two slots of one line each, padded with spaces to slotSize. That is a disk sector, within one page, so that a write is not
// torn. Writes alternate, never to the current slot: a crash leaves the other one intact. The lock's name follows, quoted, in a line of its own.
const (
	slotSize   = 512
	headerSize = 2 * slotSize
	magic      = "lockport/1"
)

// record is the content of a slot.
type record struct {
	held  bool
	token uint64
	since time.Time
	owner string // of the current or last holder
}

// newer reports whether r was written after o. Each token is written as held, and then as free unless its holder dies. Successive readers have the
// same token, but different times.
func (r record) newer(o record) bool {
	order := cmp.Or(cmp.Compare(r.token, o.token), r.since.Compare(o.since))
	return order > 0 || order == 0 && !r.held && o.held
}

// encode returns the slot with r.
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

// appendSum appends the end of a line: its checksum.
func appendSum(b []byte, sum uint32) []byte {
	return hex.AppendEncode(append(b, " crc="...), binary.BigEndian.AppendUint32(nil, sum))
}

// decode reads a slot; ok is false if it is invalid.
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

// readRecord returns the current record and its slot, -1 if neither is valid.
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

// writeRecord writes r into the slot other than at.
func writeRecord(f *os.File, r record, at int) (int, error) {
	next := (at + 1) % 2
	_, err := f.WriteAt(r.encode(), int64(next)*slotSize)
	return next, err
}

// nameLine is the line after the slots.
func nameLine(name string) string { return strconv.Quote(name) + "\n" }

// gateLine is that line in the gate of a name's permits.
func gateLine(name string, permits int) string {
	return strconv.Quote(name) + " permits=" + strconv.Itoa(permits) + "\n"
}

// writeLine writes the line after the slots.
func writeLine(f *os.File, line string) error {
	if _, err := f.WriteAt([]byte(line), headerSize); err != nil {
		return err
	}
	return f.Truncate(int64(headerSize + len(line)))
}

// readName reads the lock's name, and from a gate the number of permits; ok is false if the line is damaged.
func readName(f *os.File, file string) (name string, permits int, ok bool) {
	line := make([]byte, len(gateLine("", driver.MaxPermits))+4*driver.MaxNameLength)
	n, err := f.ReadAt(line, headerSize)
	if err != nil && err != io.EOF {
		return "", 0, false
	}
	text, _, _ := strings.Cut(string(line[:n]), "\n")
	quoted, err := strconv.QuotedPrefix(text)
	if err != nil {
		return "", 0, false
	}
	name, err = strconv.Unquote(quoted)
	switch n, isGate := strings.CutPrefix(text[len(quoted):], " permits="); {
	case err != nil || name == "":
		return "", 0, false
	case text == quoted:
		return name, 0, FileName(name) == file
	case isGate && gateName(name) == file:
		permits, err = strconv.Atoi(n)
		return name, permits, err == nil && 0 < permits && permits <= driver.MaxPermits
	}
	return name, 0, false
}

// nextToken returns a token greater than last's and the one after it, which readers after last have. A new, removed or damaged file has no last
// record. Then the clock, unless it was set back, makes the token greater than all earlier ones: each is at least the microseconds since 1970 when it
// was drawn.
func nextToken(last record, now time.Time) uint64 {
	return max(last.token+2, uint64(max(now.UnixMicro(), 1)))
}

// draw returns the next token of f, with info fi, which is locked exclusively, and the slot of the current record.
func draw(f *os.File, fi os.FileInfo, now time.Time) (token uint64, at int, err error) {
	last, at, err := readRecord(f)
	if err != nil {
		return 0, 0, err
	}
	if at < 0 && fi.ModTime().After(now) {
		return 0, 0, fmt.Errorf("%w: %s holds no valid token and was written at %s, in the future: the clock was set "+
			"back; set it right, or remove the file if nothing remembers its tokens", driver.ErrRefused, f.Name(), fi.ModTime().Format(time.RFC3339))
	}
	if token = nextToken(last, now); token > driver.MaxToken {
		return 0, 0, tooGreat(f)
	}
	return token, at, nil
}

func tooGreat(f *os.File) error {
	return fmt.Errorf("%w: the token in %s is the greatest possible", driver.ErrRefused, f.Name())
}
