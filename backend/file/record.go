package file

import (
	"bytes"
	"cmp"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
	"time"
)

// A lock file begins with two slots of one line each, padded with spaces to slotSize. That is a disk sector, within one page, so that a write is not
// torn. Writes alternate, never to the current slot: a crash leaves the other one intact. The lock's name follows, quoted, in a line of its own.
const (
	slotSize   = 512
	headerSize = 2 * slotSize
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
	return order > 0 || order == 0 && !r.held
}

func (r record) encode() []byte {
	state := "free"
	if r.held {
		state = "held"
	}
	line := fmt.Appendf(nil, "lockport/1 %s token=%d since=%d owner=%s", state, r.token, r.since.UnixMicro(), r.owner)
	line = fmt.Appendf(line, " crc=%08x", crc32.ChecksumIEEE(line))
	return fmt.Appendf(nil, "%-*s\n", slotSize-1, line)
}

// decode reads a slot. It is valid if it is exactly the encoding of what it says.
func decode(slot []byte) (r record, ok bool) {
	fields := strings.Fields(string(slot))
	if len(fields) != 6 {
		return record{}, false
	}
	r.held = fields[1] == "held"
	r.token, _ = strconv.ParseUint(strings.TrimPrefix(fields[2], "token="), 10, 64)
	since, _ := strconv.ParseInt(strings.TrimPrefix(fields[3], "since="), 10, 64)
	r.since, r.owner = time.UnixMicro(since), strings.TrimPrefix(fields[4], "owner=")
	return r, r.token > 0 && bytes.Equal(slot, r.encode())
}
