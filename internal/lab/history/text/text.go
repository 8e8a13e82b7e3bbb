// Package text parses handwritten histories, for the tests of judges.
package text

import (
	"fmt"
	"strings"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
)

// Events parses a history of one lock, "n". Each line is an event: the time in milliseconds, the subject (a worker, worker/op, or "-" for none), and
// the kind. Then follow, in any order,
//
//	token 1024  deadline 1890  limit 500  valid  value 3  name other  class held  shared  permits 2
//
// with times in milliseconds, and last, after a colon, an error or the text of a note. Empty lines and text after # are ignored:
//
//	0    w1/1 asked limit 500
//	1.5  w1/1 got token 1024 deadline 1890   # of a TTL of 2 s
//	700  -    injected
//	701  w1   killed
//
// It panics on lines that it cannot parse.
func Events(text string) (events []history.Event) {
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) != "" {
			events = append(events, event(line))
		}
	}
	return events
}

func event(line string) (e history.Event) {
	line, e.Err, _ = strings.Cut(line, ":")
	e.Err = strings.TrimSpace(e.Err)
	w := strings.Fields(line)
	who, op, acquisition := strings.Cut(strings.Trim(w[1], "-"), "/")
	e.At, e.Worker, e.Kind = instant(w[0]), who, history.Kind(w[2])
	if acquisition {
		e.Name = "n"
		scan(op, &e.Op)
	}
	fields := map[string]any{
		"valid": &e.Valid, "shared": &e.Mode.Shared, "deadline": &e.Deadline, "limit": &e.Limit,
		"token": &e.Token, "value": &e.Value, "name": &e.Name, "class": &e.Class, "permits": &e.Mode.Permits,
	}
	for w = w[3:]; len(w) > 0; w = w[1:] {
		switch to := fields[w[0]].(type) {
		case *bool:
			*to = true
			continue
		case *history.Instant:
			*to = instant(w[1])
		default:
			scan(w[1], to)
		}
		w = w[1:]
	}
	return e
}

func instant(word string) history.Instant {
	var ms float64
	scan(word, &ms)
	return At(ms)
}

func scan(word string, to any) {
	if _, err := fmt.Sscan(word, to); err != nil {
		panic(fmt.Sprintf("%s: %v", word, err))
	}
}

// At converts a time in milliseconds to an instant of a history.
func At(ms float64) history.Instant { return history.Instant(time.Hour).Add(time.Duration(ms * 1e6)) }
