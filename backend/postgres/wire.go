package postgres

import (
	"encoding/binary"
	"fmt"
)

// statement is one of those that a session of ours prepares when it begins. They run in binary format, each in a transaction of its own, and return
// one column of numbers.
type statement struct {
	name   string // of the prepared statement
	sql    string
	params []uint32 // object ids of the types of its parameters
}

// Object ids of types, see pg_type.dat.
const (
	int4OID      = 23
	int8OID      = 20
	int4ArrayOID = 1007
	int8ArrayOID = 1016
)

// channel is that of our notifications: "f" or "c" and the key.
const channel = "lockport"

// statements are a session's. The functions and their order within a statement are what the locks rest on: a CASE evaluates its branches after
// its conditions, so that a token is drawn by who has the lock, and a release looks for who waits when the lock is free. Who waits has a side
// lock in shared mode.
type statements struct {
	try, tryMany   statement // a token, or NULL
	wait           statement // a token
	free, freeMany statement // one of the three below
	tell           statement // that keys are free
	unlock         statement
	await, leave   statement
	contend        statement // that a key is waited for
	ping           statement // the process id
	end, gone      statement
}

// The answers to free.
const (
	notFreed    = iota // this session did not have it
	freedAlone         // nobody is to be told
	freedForAll        // somebody awaits it
)

// newStatements are the statements where draw is the expression that gives a token.
func newStatements(draw string) statements {
	key, sides, session := []uint32{int8OID}, []uint32{int4OID, int4OID}, []uint32{int4OID, int8OID}
	keys := []uint32{int8ArrayOID}
	const (
		free   = `CASE WHEN pg_advisory_unlock(%s) THEN CASE WHEN pg_try_advisory_xact_lock(%s, %s) THEN 1 ELSE 2 END ELSE 0 END`
		itself = `FROM pg_stat_get_activity($1) WHERE extract(epoch FROM backend_start) * 1000000 = $2`
		// Who is hidden from us (another role's backend) may be the one: that it is gone is not certain, and it is not ours to end.
		perhaps = `FROM pg_stat_get_activity($1) WHERE coalesce(extract(epoch FROM backend_start) * 1000000 = $2, true)`
		notify  = `pg_notify('` + channel + `', `
	)
	return statements{
		try:     statement{"lp_try", `SELECT CASE WHEN pg_try_advisory_lock($1) THEN ` + draw + ` END`, key},
		tryMany: statement{"lp_try_many", `SELECT CASE WHEN pg_try_advisory_lock(k) THEN ` + draw + ` END FROM unnest($1) AS k`, keys},
		wait:    statement{"lp_wait", `SELECT CASE WHEN pg_advisory_lock($1) IS NOT NULL THEN ` + draw + ` END`, key},
		free:    statement{"lp_free", `SELECT ` + fmt.Sprintf(free, "$1", "$2", "$3"), append(key, sides...)},
		freeMany: statement{"lp_free_many", `SELECT ` + fmt.Sprintf(free, "k", "hi", "lo") + ` FROM unnest($1, $2, $3) AS u(k, hi, lo)`,
			[]uint32{int8ArrayOID, int4ArrayOID, int4ArrayOID}},
		tell:    statement{"lp_tell", `SELECT count(` + notify + `'f' || k)) FROM unnest($1) AS k`, keys},
		unlock:  statement{"lp_unlock", `SELECT pg_advisory_unlock($1)::int`, key},
		await:   statement{"lp_await", `SELECT CASE WHEN pg_advisory_lock_shared($2, $3) IS NOT NULL THEN length(` + notify + `'c' || $1)::text) END`, append(key, sides...)},
		leave:   statement{"lp_leave", `SELECT pg_advisory_unlock_shared($1, $2)::int`, sides},
		contend: statement{"lp_contend", `SELECT length(` + notify + `'c' || $1)::text || set_config('lock_timeout', '` + milliseconds(waitLockTimeout) + `', false))`, key},
		ping:    statement{"lp_ping", `SELECT pg_backend_pid()`, nil},
		end:     statement{"lp_end", `SELECT count(pg_terminate_backend(pid, 10))::int ` + itself, session},
		gone:    statement{"lp_gone", `SELECT (NOT EXISTS (SELECT ` + perhaps + `))::int`, session},
	}
}

func (s *statements) all() []*statement {
	return []*statement{&s.try, &s.tryMany, &s.wait, &s.free, &s.freeMany, &s.tell, &s.unlock, &s.await, &s.leave, &s.contend, &s.ping, &s.end, &s.gone}
}

// appendRun has the server carry out s, prepared before, in a transaction of its own: Bind, Execute and Sync, as
// https://www.postgresql.org/docs/current/protocol-message-formats.html has them. args are the values of its parameters one after the other, of an array
// as many as there are for each.
func (s *statement) appendRun(buf []byte, args ...int64) []byte {
	const binaryFormat = 1
	begin := func(kind byte) int {
		buf = append(buf, kind, 0, 0, 0, 0)
		return len(buf) - 4
	}
	u16 := func(v int) { buf = binary.BigEndian.AppendUint16(buf, uint16(v)) }
	u32 := func(v int) { buf = binary.BigEndian.AppendUint32(buf, uint32(v)) }
	finish := func(at int) { binary.BigEndian.PutUint32(buf[at:], uint32(len(buf)-at)) }
	value := func(oid uint32, v int64) {
		if oid == int8OID {
			u32(8)
			buf = binary.BigEndian.AppendUint64(buf, uint64(v))
		} else {
			u32(4)
			u32(int(v))
		}
	}

	at := begin('B')
	buf = append(buf, 0) // the unnamed portal
	buf = append(append(buf, s.name...), 0)
	u16(1)
	u16(binaryFormat) // all parameters
	u16(len(s.params))
	for i, oid := range s.params {
		element, ok := elements[oid]
		if !ok {
			value(oid, args[i])
			continue
		}
		n := len(args) / len(s.params)
		buf = append(buf, 0, 0, 0, 0)
		at := len(buf)
		u32(1) // dimension
		u32(0) // NULLs
		u32(int(element))
		u32(n)
		u32(1) // the first index
		for _, v := range args[i*n : (i+1)*n] {
			value(element, v)
		}
		binary.BigEndian.PutUint32(buf[at-4:], uint32(len(buf)-at)) // without itself
	}
	u16(1)
	u16(binaryFormat) // all results
	finish(at)

	at = begin('E')
	buf = append(buf, 0)
	u32(0) // all rows
	finish(at)
	finish(begin('S'))
	return buf
}

// elements are the types of the elements of arrays.
var elements = map[uint32]uint32{int4ArrayOID: int4OID, int8ArrayOID: int8OID}

// number is the value of a column in binary format; ok is false for NULL.
func number(value []byte) (n int64, ok bool) {
	switch len(value) {
	case 4:
		return int64(int32(binary.BigEndian.Uint32(value))), true
	case 8:
		return int64(binary.BigEndian.Uint64(value)), true
	}
	return 0, false
}
