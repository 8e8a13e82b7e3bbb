package hazards

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/history"
)

// readHistory makes a history of events such as "100 w1/1 got token 7 deadline 900": the time in milliseconds, who, the event, and what it has. "noted" has the rest
// as its text. A line, or a semicolon, ends an event.
func readHistory(t *testing.T, text string) *history.History {
	var events []history.Event
	for line := range strings.Lines(strings.ReplaceAll(text, ";", "\n")) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		ms := func(word string) (at history.Instant) {
			var n float64
			_, err := fmt.Sscan(word, &n)
			require.NoError(t, err, line)
			return at + history.Instant(time.Hour) + history.Instant(n*1e6)
		}
		e := history.Event{At: ms(words[0]), Kind: history.Noted, Err: strings.Join(words[2:], " ")}
		if words[1] != "noted" {
			e.Worker, e.Op, e.Kind, e.Name, e.Err = words[1][:2], int64(words[1][3]-'0'), history.Kind(words[2]), "lock", ""
			words = append(words[3:], "")
		} else {
			words = nil
		}
		for i := 0; i+1 < len(words); i += 2 {
			switch value := words[i+1]; words[i] {
			case "token":
				_, err := fmt.Sscan(value, (*uint64)(&e.Token))
				require.NoError(t, err, line)
			case "deadline":
				e.Deadline = ms(value)
			case "class":
				e.Class = history.Class(value)
			case "valid":
				e.Valid = value == "true"
			case "on": // nothing: the lock of a trial without a name
				e.Name = value
			default:
				t.Fatalf("%q", line)
			}
		}
		events = append(events, e)
	}
	h, err := newHistory(events)
	require.NoError(t, err)
	return h
}

// Two histories that others begin with.
const (
	// both believe from 2100 to 2500.
	bothBelieve = `
		0 w1/0 spawned; 5 w2/0 spawned; 100 w1/1 asked; 110 w1/1 got token 1024 deadline 2000; 120 w2/1 asked; 1000 noted injected
		1500 w1/1 extended token 1024 deadline 2500; 2100 w2/1 got token 2048 deadline 4000; 2900 noted healed; 3000 w1/1 told
	`
	// the older one has ended when the newer one begins.
	oneAfterAnother = `
		0 w1/0 spawned; 5 w2/0 spawned; 100 w1/1 asked; 110 w1/1 got token 1024 deadline 2000; 120 w2/1 asked; 1000 noted injected; 1010 w1/0 stopped
		2100 w2/1 got token 2048 deadline 4000; 2150 w1/0 continued; 2160 noted healed; 3000 w1/1 told
	`
)

// at is an instant of such a history.
func at(ms float64) history.Instant { return history.Instant(time.Hour) + history.Instant(ms*1e6) }
