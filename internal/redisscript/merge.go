package redisscript

import (
	"errors"
	"slices"
	"strconv"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// maxMerged is how many calls one script makes: others wait for it.
	maxMerged = 64
	// unmerged is for how long calls go as they are after a server has refused them together, which it may do because of one of them: its ACL
	// forbids a key, or the keys have several slots.
	unmerged = time.Second
)

// errTogether is the error of a call that was refused together with others, and did nothing.
var errTogether = errors.New("refused together with others")

// merger makes one call of several calls of the same script, which saves the server a third of its time. For one goroutine.
type merger struct {
	apart  bool      // never: the keys may have several slots
	loaded []*Script // that have been sent with their source
	from   time.Time // not before; zero: at once
}

// next is how many of the first calls go as one. They are in order: see append.
func (m *merger) next(calls []*call, merge bool) int {
	n, script := 1, calls[0].script
	if !merge || m.apart || script == nil || script.many == nil {
		return 1
	}
	for n < len(calls) && n < maxMerged && calls[n].script == script {
		n++
	}
	return n
}

// append brings calls into an order in which those that can go as one follow each other, and appends them as they go to the server.
func (m *merger) append(b []byte, calls []*call, merge bool) []byte {
	if merge && !m.from.IsZero() {
		if time.Now().Before(m.from) {
			for _, c := range calls {
				c.script = nil
			}
		} else {
			m.from = time.Time{}
		}
	}
	if merge {
		slices.SortStableFunc(calls, func(a, b *call) int { return a.rank() - b.rank() })
	}
	for rest := calls; len(rest) > 0; {
		n := m.next(rest, merge)
		if n == 1 {
			b = appendArgs(b, rest[0].args)
		} else {
			b = m.appendMany(b, rest[:n])
		}
		for _, c := range rest[:n] {
			c.sent = true
		}
		rest = rest[n:]
	}
	return b
}

// rank orders calls: releases first, so that claims of the same names find them free, and WAIT last, since it speaks for what was sent before it.
func (c *call) rank() int {
	switch {
	case c.waits:
		return 3
	case c.script == Release:
		return 0
	case c.script == Acquire:
		return 1
	}
	return 2
}

func (m *merger) appendMany(b []byte, calls []*call) []byte {
	script := calls[0].script
	keys, argv := script.keys, len(calls[0].args)-3-script.keys
	b = append(b, '*')
	b = strconv.AppendInt(b, int64(5+len(calls)*(keys+argv)), 10)
	b = append(b, '\r', '\n')
	if slices.Contains(m.loaded, script) {
		b = appendBulk(appendBulk(b, "EVALSHA"), script.many.sha.(string))
	} else {
		m.loaded = append(m.loaded, script)
		b = appendBulk(appendBulk(b, "EVAL"), script.many.source)
	}
	b = appendNumber(b, int64(len(calls)*keys))
	for _, c := range calls {
		for _, a := range c.args[3 : 3+keys] {
			b = appendArg(b, a)
		}
	}
	b = appendNumber(appendNumber(b, int64(keys)), int64(argv))
	for _, c := range calls {
		for _, a := range c.args[3+keys:] {
			b = appendArg(b, a)
		}
	}
	return b
}

// share gives calls that went as one their replies.
func (m *merger) share(calls []*call, value any, err error) {
	list, _ := value.([]any)
	switch {
	case err != nil && !broken(err): // the script has not run: within it, errors are those of one call
		if isNoScript(err) {
			m.loaded = nil
		} else {
			m.from = time.Now().Add(unmerged)
		}
		err = errTogether
	case err == nil && len(list) != len(calls):
		err = errProtocol
	}
	for i, c := range calls {
		c.value, c.err = nil, err
		if err == nil {
			c.value = list[i]
			if reply, ok := c.value.(goredis.Error); ok {
				c.value, c.err = nil, reply
			}
		}
	}
}

// refused are the calls that are to be made again, each for itself, and WAIT behind them.
func (m *merger) refused(calls []*call) (again []*call) {
	for _, c := range calls {
		if c.err == errTogether || c.waits && len(again) > 0 {
			again = append(again, c)
		}
	}
	return again
}
