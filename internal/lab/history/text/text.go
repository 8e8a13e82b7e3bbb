// Package text reads histories that are written by hand, for the tests of those who judge them.
package text

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/history"
)

// Events reads a history of one lock, "n": a line for each event, with the time in milliseconds, who it is about (a worker, or worker/op;
// "-" for nobody), and its kind. Then come, in any order, what it has of
//
//	token 1024  deadline 1890  limit 500  valid  value 3  name other  class held
//
// all times in milliseconds, and last an error or the text of a note after a colon. Empty lines and what follows # are left out:
//
//	0    w1/1 asked limit 500
//	1.5  w1/1 got token 1024 deadline 1890   # of a TTL of 2 s
//	700  -    noted: injected
//	701  w1   killed
//
// It panics if it cannot read a line.
func Events(text string) []history.Event {
	var events []history.Event
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		e, err := event(line)
		if err != nil {
			panic(fmt.Sprintf("%v, in: %s", err, line))
		}
		events = append(events, e)
	}
	return events
}

func event(line string) (e history.Event, err error) {
	line, e.Err, _ = strings.Cut(line, ":")
	e.Err = strings.TrimSpace(e.Err)
	words := strings.Fields(line)
	if len(words) < 3 {
		return e, fmt.Errorf("no time, worker and kind")
	}
	e.At, err = instant(words[0])
	e.Kind = history.Kind(words[2])
	if err == nil && words[1] != "-" {
		worker, op, acquisition := strings.Cut(words[1], "/")
		e.Worker = worker
		if acquisition {
			e.Name = "n"
			e.Op, err = strconv.ParseInt(op, 10, 64)
		}
	}
	for words = words[3:]; err == nil && len(words) > 0; {
		if words[0] == "valid" {
			e.Valid, words = true, words[1:]
			continue
		}
		if len(words) == 1 {
			return e, fmt.Errorf("nothing after %q", words[0])
		}
		err = set(&e, words[0], words[1])
		words = words[2:]
	}
	return e, err
}

// set gives e the value that a word and the one after it say.
func set(e *history.Event, word, value string) (err error) {
	switch word {
	case "token":
		var n uint64
		n, err = strconv.ParseUint(value, 10, 64)
		e.Token = lockport.Token(n)
	case "deadline":
		e.Deadline, err = instant(value)
	case "limit":
		e.Limit, err = instant(value)
	case "value":
		e.Value, err = strconv.ParseInt(value, 10, 64)
	case "name":
		e.Name = value
	case "class":
		e.Class = history.Class(value)
	default:
		err = fmt.Errorf("unknown word %q", word)
	}
	return err
}

// instant is some milliseconds after a moment that is not 0.
func instant(text string) (history.Instant, error) {
	ms, err := strconv.ParseFloat(text, 64)
	return At(ms), err
}

// At is the instant that a history has for a time in milliseconds.
func At(ms float64) history.Instant {
	return history.Instant(time.Hour).Add(time.Duration(ms * float64(time.Millisecond)))
}
