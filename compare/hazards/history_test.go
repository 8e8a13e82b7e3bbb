package hazards

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/history"
)

// readHistory makes one of lines such as "100 w1/1 got token 7 deadline 900": the time in milliseconds, who, the event, and what it has. "noted" has the rest of the line
// as its text.
func readHistory(t *testing.T, lines string) *history.History {
	var events []history.Event
	for line := range strings.Lines(lines) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		ms, err := strconv.ParseFloat(words[0], 64)
		require.NoError(t, err)
		e := history.Event{At: at(ms)}
		if words[1] == "noted" {
			e.Kind, e.Err = history.Noted, strings.Join(words[2:], " ")
			events = append(events, e)
			continue
		}
		e.Name = "lock"
		worker, op, _ := strings.Cut(words[1], "/")
		e.Worker, e.Kind = worker, history.Kind(words[2])
		_, _ = fmt.Sscan(op, &e.Op)
		for i := 3; i < len(words); i += 2 {
			if i+1 == len(words) { // "on" nothing
				e.Name = ""
				break
			}
			n, _ := strconv.ParseFloat(words[i+1], 64)
			switch words[i] {
			case "token":
				e.Token = lockport.Token(n)
			case "deadline":
				e.Deadline = at(n)
			case "class":
				e.Class = history.Class(words[i+1])
			case "valid":
				e.Valid = words[i+1] == "true"
			case "on":
				e.Name = words[i+1]
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

// at is an instant of such a history.
func at(ms float64) history.Instant { return history.Instant(time.Hour) + history.Instant(ms*1e6) }

// Two histories that others begin with.
const (
	// both believe from 2100 to 2500.
	bothBelieve = `
		0 w1/0 spawned
		5 w2/0 spawned
		100 w1/1 asked
		110 w1/1 got token 1024 deadline 2000
		120 w2/1 asked
		1000 noted injected
		1500 w1/1 extended token 1024 deadline 2500
		2100 w2/1 got token 2048 deadline 4000
		2900 noted healed
		3000 w1/1 told
	`
	// the older one has ended when the newer one begins.
	oneAfterAnother = `
		0 w1/0 spawned
		5 w2/0 spawned
		100 w1/1 asked
		110 w1/1 got token 1024 deadline 2000
		120 w2/1 asked
		1000 noted injected
		1010 w1/0 stopped
		2100 w2/1 got token 2048 deadline 4000
		2150 w1/0 continued
		2160 noted healed
		3000 w1/1 told
	`
)
