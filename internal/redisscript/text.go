package redisscript

import (
	"slices"
	"strconv"
)

// Text is an argument of a call that is put together when it is written, so that it need not be kept for as long as a lock is held. It always gives
// the same, also when the call has been given up, from any goroutine.
type Text interface {
	Append(b []byte) []byte
}

// appendText appends t as it goes to the server: behind its length, which is known afterwards.
func appendText(b []byte, t Text) []byte {
	start := len(b)
	b = t.Append(b)
	var space [24]byte
	head := append(space[:0], '$')
	head = strconv.AppendInt(head, int64(len(b)-start), 10)
	head = append(head, '\r', '\n')
	return append(slices.Insert(b, start, head...), '\r', '\n')
}

// plain are args as go-redis takes, routes and shows them: with a string for each Text.
func plain(args []any) []any {
	copied := false
	for i, a := range args {
		if t, ok := a.(Text); ok {
			if !copied {
				args, copied = slices.Clone(args), true
			}
			args[i] = string(t.Append(nil))
		}
	}
	return args
}
