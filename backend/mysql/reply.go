package mysql

import (
	endian "encoding/binary"
	"errors"

	gomysql "github.com/go-sql-driver/mysql"
)

// The first bytes of packets that are not rows. https://mariadb.com/kb/en/result-set-packets/
const (
	okPacket    = 0x00
	endPacket   = 0xfe
	errorPacket = 0xff
	null        = 0xfb // as a value in a row
)

// reply is what the server answers to a statement that asks for one row of numbers, or to a ping.
type reply struct {
	ones   []bool              // of each column: it is 1, not 0 and not NULL
	failed *gomysql.MySQLError // what the server says instead
}

var errNoReply = errors.New("the server has answered something else than was asked")

// read reads the answer at the beginning of buf, of which nothing has been read before: a row of so many columns, or if there are none that to a ping. It
// returns false if there is more to come. ends: the list of columns has an end of its own, as it had once.
func (r *reply) read(buf []byte, columns int, ends bool) (complete bool, err error) {
	p := packets{rest: buf}
	r.ones, r.failed = r.ones[:0], nil
	first, ok := p.next()
	switch {
	case !ok:
		return false, p.err
	case first[0] == errorPacket:
		return r.fail(first, &p)
	case columns == 0 && first[0] == okPacket:
		return p.isLast()
	case columns == 0 || int(first[0]) != columns:
		return false, errNoReply
	}
	descriptions := columns
	if ends {
		descriptions++
	}
	for range descriptions {
		switch packet, ok := p.next(); {
		case !ok:
			return false, p.err
		case len(packet) > 0 && packet[0] == errorPacket:
			return r.fail(packet, &p)
		}
	}
	row, ok := p.next()
	switch {
	case !ok:
		return false, p.err
	case row[0] == errorPacket:
		return r.fail(row, &p)
	}
	for range columns {
		switch {
		case len(row) > 0 && row[0] == null:
			row = row[1:]
			r.ones = append(r.ones, false)
		case len(row) > 0 && row[0] < null && len(row) > int(row[0]):
			value := row[1 : 1+row[0]]
			row = row[1+len(value):]
			r.ones = append(r.ones, string(value) == "1")
		default:
			return false, errNoReply
		}
	}
	last, ok := p.next()
	switch {
	case !ok:
		return false, p.err
	case last[0] == errorPacket:
		return r.fail(last, &p)
	case last[0] != endPacket || len(row) > 0:
		return false, errNoReply
	}
	return p.isLast()
}

// fail reads what the server says of a failure: a number, a # with five characters of SQLSTATE, and text.
func (r *reply) fail(packet []byte, p *packets) (complete bool, err error) {
	if len(packet) < 3 {
		return false, errNoReply
	}
	r.failed = &gomysql.MySQLError{Number: endian.LittleEndian.Uint16(packet[1:])}
	text := packet[3:]
	if len(text) > 5 && text[0] == '#' {
		copy(r.failed.SQLState[:], text[1:])
		text = text[6:]
	}
	r.failed.Message = string(text)
	return p.isLast()
}

// packets takes an answer apart: each packet has a length of three bytes and a number, which begins with 1 in an answer.
type packets struct {
	rest []byte
	seq  byte
	err  error // it is none
}

// next is the next packet, which has a first byte. false: it is not there yet.
func (p *packets) next() (packet []byte, ok bool) {
	if len(p.rest) < 4 {
		return nil, false
	}
	n := int(p.rest[0]) | int(p.rest[1])<<8 | int(p.rest[2])<<16
	p.seq++
	if n == 0 || n == 1<<24-1 || p.rest[3] != p.seq {
		p.err = errNoReply
		return nil, false
	}
	if len(p.rest) < 4+n {
		return nil, false
	}
	packet, p.rest = p.rest[4:4+n], p.rest[4+n:]
	return packet, true
}

// isLast says that the answer is complete, behind which nothing comes unasked.
func (p *packets) isLast() (bool, error) {
	if len(p.rest) > 0 {
		return false, errNoReply
	}
	return true, nil
}

// What the client library has told the server in its first packet, of which the beginning is a number of flags.
// https://mariadb.com/kb/en/connection/#capabilities
const (
	flagCompressed = 1 << 5
	flagEncrypted  = 1 << 11
	flagNoEnds     = 1 << 24 // lists of columns have no end of their own
)

// isPlain says of these flags that what goes over the socket is neither encrypted nor compressed.
func isPlain(flags uint32) bool { return flags != 0 && flags&(flagCompressed|flagEncrypted) == 0 }
