package linear_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/history/linear"
	historytext "github.com/lockport/lockport/internal/lab/history/text"
	"github.com/lockport/lockport/internal/lab/peer"
)

// A server with a TTL of 2 s, and servers that free the locks of a closed connection.
var (
	leases       = linear.Rules{Margin: 110 * time.Millisecond}
	sessions     = linear.Rules{Margin: 110 * time.Millisecond, Sessions: true}
	sessionsGone = linear.Rules{Margin: 110 * time.Millisecond, Sessions: true, Gone: true}
)

func check(t *testing.T, text string, r linear.Rules) error {
	t.Helper()
	h := peer.Must(history.NewHistory(historytext.Events(text)))(t)
	err := linear.Check(h, r, 20*time.Second)
	require.NotContains(t, fmt.Sprint(err), "not decided")
	return err
}

// The holds of two workers. The first got the lock at 10 ms, and its last renewal was at 10 ms.
const (
	first    = "0 w1/1 asked\n 10 w1/1 got token 1024 deadline 1890\n"
	released = "500 w1/1 releasing\n 510 w1/1 released\n"
	theEnd   = "\n9000 - noted: the end\n"
)

// handedOn is a hold of a session that the fault ends. It is handed on before its process learns of that, when another has the lock.
const handedOn = first + "100 w2/1 asked\n 490 - injected\n 500 w2/1 got token 2048\n 500.5 w1/2 asked\n 501 w1/1 releasing\n" +
	"502 w1/2 got token 1025\n 503 w1/1 released\n 600 w2/1 releasing\n 601 w2/1 released\n"

// second is a hold that another worker asked for at 100 ms.
func second(got float64, token int) string {
	return fmt.Sprintf("100 w2/1 asked\n %v w2/1 got token %d deadline %v\n %v w2/1 releasing\n %v w2/1 released\n", got, token, got+1880, got+50, got+52)
}

// beside is a hold in a mode from got until its release or its worker's kill.
func beside(worker int, mode string, got float64, token int, end string) string {
	text := fmt.Sprintf("%v w%d/1 asked %s\n %v w%d/1 got token %d deadline %v\n", got-5, worker, mode, got, worker, token, got+1880)
	if end == "killed" {
		return text + fmt.Sprintf("%v w%d killed\n", got+300, worker)
	}
	return text + fmt.Sprintf("%v w%d/1 releasing\n %v w%d/1 released\n", got+300, worker, got+302, worker)
}

// Leases, sessions, and sessions that the fault may end; then readers and permits.
func TestCheck(t *testing.T) {
	const reader, permit = "shared", "permits 2"
	// The server ends a session, and a reader joins its claim before the process knows.
	joined := beside(1, reader, 10, 1024, "") + "100 - injected\n" + beside(2, "", 120, 2048, "") + "125 w1/2 asked shared\n 130 w1/2 got token 1024\n 131 w1/2 told: session killed\n"
	for _, c := range []struct {
		name, text string
		rules      linear.Rules
		ok         bool
	}{
		{"nothing", "", leases, true},
		{"one after the other", first + released + second(520, 2048), leases, true},
		{"granted while Release is under way", first + released + second(505, 2048), leases, true},
		{"asked for before the first did, and got after", "0 w2/1 asked\n 1 w1/1 asked\n 10 w1/1 got token 1024\n 500 w1/1 releasing\n 510 w1/1 released\n 505 w2/1 got token 2048", leases, true},
		{"seen in the reverse order of grants", first + released + "5 w2/1 asked\n 9 w2/1 got token 512\n 9.5 w2/1 releasing\n 10.5 w2/1 released", leases, true},
		{"a paused holder", first + "20 w1 stopped\n" + second(2010, 2048) + "4000 w1 continued\n 4001 w1/1 told: silence\n 4002 w1/1 releasing\n 4003 w1/1 released: lost", leases, true},
		{"a holder that was paused before its release", first + "500 w1/1 releasing\n 501 w1 stopped\n" + second(2010, 2048) + "4000 w1 continued\n 4003 w1/1 released: lost", leases, true},
		{"a killed holder, after its TTL", first + "20 w1 killed\n" + second(2001, 2048), leases, true},
		{"a killed holder that had renewed", first + "600 w1/1 extended deadline 2490\n 700 w1 killed\n" + second(2601, 2048), leases, true},
		{"a killed holder, whose session ended", first + "20 w1 killed\n" + second(120, 2048), sessions, true},
		{"cut off, and told at the deadline", first + "1890 w1/1 told: silence\n" + second(1895, 2048), leases, true},
		{"cut off, told at the deadline, but recorded late, and stopped much later", first + "1893 w1/1 told: silence\n" + second(1892, 2048) + "3000 w1 stopped", leases, true},
		{"held to the end", "0 w1/1 asked\n 10 w1/1 got token 1024 deadline 20000\n", leases, true},
		{"told of a removal", first + "600 w1/1 told: removed\n" + second(601, 2048), leases, true},
		{"the reply to Release was lost", first + "500 w1/1 releasing\n 1890 w1/1 released: unavailable\n" + second(700, 2048), leases, true},
		{"the reply to Release was lost, and so was Release", first + "500 w1/1 releasing\n 1890 w1/1 released: unavailable\n" + second(2010, 2048), leases, true},
		{"killed during Release", first + "500 w1/1 releasing\n 501 w1 killed\n" + second(502, 2048), leases, true},
		{"hand-offs inside a process", first + released + "400 w1/2 asked\n 501 w1/2 got token 1025 deadline 1890\n 510 w1/2 releasing\n 520 w1/2 released\n" + second(530, 2048), leases, true},
		{"an unused token", first + released + second(520, 9216), leases, true},
		{"a killed acquisition", first + released + "50 w3/1 asked\n 505 w3 killed\n" + second(3000, 4096), leases, true},
		{"without tokens", strings.ReplaceAll(first, "token 1024", "") + released + strings.ReplaceAll(second(520, 0), "token 0", ""), leases, true},
		{"sessions end by the fault", first + "600 - injected\n" + second(610, 2048) + "650 w1/1 told: session killed", sessionsGone, true},
		{"sessions ended by the fault, and a hold was handed on meanwhile", handedOn + "495 - healed\n 510 w1/2 told: session killed", sessionsGone, true},
		{"the same, and the handed-on hold was released in order", handedOn + "504 w1/2 releasing\n 505 w1/2 released", sessionsGone, true},

		{"a fail-over that lost the lock", first + "300 - injected\n" + second(400, 2048) + released, leases, false},
		{"a clock that is too fast, by less than the margin", first + "20 w1 killed\n" + second(1950, 2048), leases, false},
		{"a token twice", first + released + second(520, 1024), leases, false},
		{"a token that falls", first + released + second(520, 1000), leases, false},
		{"before Release was called", first + released + second(499, 2048), leases, false},
		{"no Release, no deadline", "0 w1/1 asked\n 10 w1/1 got token 1024\n" + second(5000, 2048), leases, false},
		{"killed, and granted again before its TTL", first + "20 w1 killed\n" + second(120, 2048), leases, false},
		{"stopped, and granted again too early", first + "20 w1 stopped\n" + second(1900, 2048) + "4000 w1 continued\n 4001 w1/1 told: silence", leases, false},
		{"stopped before, and granted again before the deadline", first + "20 w1 stopped\n 50 w1 continued\n 1890 w1/1 told: silence\n" + second(1000, 2048), leases, false},
		{"released in order, long after its deadline, when another had it", first + "20 w1 stopped\n" + second(2010, 2048) +
			"4000 w1 continued\n 4002 w1/1 releasing\n 4003 w1/1 released", leases, false},
		{"told, but later", first + "600 w1/1 told: removed\n" + second(590, 2048), leases, false},
		{"a hand-off while another has it", first + "20 w1/2 asked\n 30 w1/2 got token 1025\n", leases, false},
		{"without tokens", strings.ReplaceAll(first, "token 1024", "") + released + strings.ReplaceAll(second(499, 0), "token 0", ""), leases, false},
		{"a fault that ends sessions, which the rules exclude", first + "600 - injected\n" + second(610, 2048) + "650 w1/1 told: session killed", sessions, false},
		{"a fault that ends sessions, and one that was ended before it", first + "600 - injected\n" + second(590, 2048) + "650 w1/1 told: session killed", sessionsGone, false},
		{"a fault that ends sessions, and a hold after it", "0 - injected\n 1 - healed\n 2 w1/1 asked\n 10 w1/1 got token 1024 deadline 1890\n" + second(500, 2048), sessionsGone, false},
		{"a fault that ends sessions, and the same token again", first + "600 - injected\n" + second(610, 1024) + "650 w1/1 told: session killed", sessionsGone, false},
		{"two new holds during a fault that ends sessions", "0 - injected\n" + first + released + second(520, 1024), sessionsGone, false},
		{"a hand-off before the fault, of a claim that had been released", first + "100 w2/1 asked\n 300 w1/1 releasing\n 310 w1/1 released\n" +
			"500 w2/1 got token 2048\n 505 w1/2 asked\n 510 w1/2 got token 1025\n 600 - injected", sessionsGone, false},

		{"names are judged apart", first + "20 w2/1 asked name m\n 30 w2/1 got name m token 1024\n", leases, true},
		{"another name", first + "20 w2/1 asked name m\n 30 w2/1 got name m token 1024\n 40 w3/1 asked name m\n 50 w3/1 got name m token 2048\n", leases, false},

		{"readers together, and a writer", beside(1, reader, 10, 1024, "") + beside(2, reader, 20, 2048, "") + beside(3, "", 330, 3072, ""), leases, true},
		{"readers seen in the reverse order of grants", beside(1, reader, 10, 2048, "") + beside(2, reader, 30, 1024, ""), leases, true},
		{"readers of one claim", beside(1, reader, 10, 1024, "") + "20 w1/2 asked shared\n 21 w1/2 got token 1024\n 22 w1/2 releasing\n 23 w1/2 released\n", leases, true},
		{"a reader after a writer", beside(1, "", 10, 1024, "") + beside(2, reader, 330, 2048, ""), leases, true},
		{"a writer beside a reader", beside(1, reader, 10, 1024, "") + beside(2, reader, 20, 2048, "") + beside(3, "", 315, 3072, ""), leases, false},
		{"a reader beside a writer", beside(1, "", 10, 1024, "") + beside(2, reader, 300, 2048, ""), leases, false},
		{"a reader that was killed keeps a writer out", beside(1, reader, 10, 1024, "killed") + beside(2, "", 1900, 2048, ""), leases, false},
		{"a killed reader, after its TTL", beside(1, reader, 10, 1024, "killed") + beside(2, "", 2001, 2048, ""), leases, true},
		{"a killed reader keeps no reader out", beside(1, reader, 10, 1024, "killed") + beside(2, reader, 400, 2048, ""), leases, true},
		{"a writer's token is a reader's", beside(1, reader, 10, 1024, "") + beside(2, "", 330, 1024, ""), leases, false},
		{"a reader's token is a writer's", beside(1, "", 10, 1024, "") + beside(2, reader, 330, 1024, ""), leases, false},
		{"a reader's token is smaller than a writer's", beside(1, "", 10, 2048, "") + beside(2, reader, 330, 1024, ""), leases, false},
		{"as many as there are permits", beside(1, permit, 10, 1024, "") + beside(2, permit, 20, 2048, "") + beside(3, permit, 315, 3072, ""), leases, true},
		{"a permit too many", beside(1, permit, 10, 1024, "") + beside(2, permit, 20, 2048, "") + beside(3, permit, 300, 3072, ""), leases, false},
		{"a killed worker's permit", beside(1, permit, 10, 1024, "killed") + beside(2, permit, 1700, 2048, "") + beside(3, permit, 1900, 3072, ""), leases, false},
		{"a killed worker's permit after its TTL", beside(1, permit, 10, 1024, "killed") + beside(2, permit, 1800, 2048, "") + beside(3, permit, 2001, 3072, ""), leases, true},
		{"handed on beside a newer claim", beside(1, permit, 10, 1024, "") + beside(2, permit, 20, 2048, "") +
			"25 w1/2 asked permits 2\n 311 w1/2 got token 1025\n 400 w1/2 releasing\n 401 w1/2 released\n" + beside(3, permit, 500, 3072, ""), leases, true},
		{"a permit that the server granted to a call that gave up", "0 w1/1 asked permits 2\n 3 w1/2 asked permits 2\n 4 w1/1 failed\n 5 w1/2 got token 1024\n" +
			"1 w2/1 asked permits 2\n 2 w2/1 got token 2048\n", leases, true},
		{"a permit's token that falls", beside(1, permit, 10, 2048, "") + beside(2, permit, 20, 1024, ""), leases, false},
		{"a permit's token twice", beside(1, permit, 10, 1024, "") + beside(2, permit, 20, 1024, ""), leases, false},
		{"a reader joins a claim that the fault ended", joined, sessionsGone, true},
		{"a reader joins a claim that ended too early", joined, sessions, false},
	} {
		err := check(t, c.text+theEnd, c.rules)
		require.Equal(t, c.ok, err == nil, "%s: %v", c.name, err)
	}
}

func TestTheMessageSaysWhatDoesNotFitIn(t *testing.T) {
	err := check(t, first+"300 - injected\n 301 - noted: master killed, replica promoted\n"+second(400, 2048)+theEnd, leases)
	require.EqualError(t, err, `"n" is not linearizable: no correct lock with rising tokens could have done this. The longest order has 1 of 2 holds
  then w1/1 (token 1024) asked at 0s, got it at 10ms and believed until 1.89s: the deadline passed; deadline at 1.89s
  does not fit in: w2/1 (token 2048) asked at 100ms, got it at 400ms and believed until 450ms: released; deadline at 2.28s; Release called at 450ms; returned at 452ms
  meanwhile: 300ms injected; 301ms master killed, replica promoted`)
}

func TestAnUndecidedCheckIsNoPass(t *testing.T) {
	var long strings.Builder
	for i := range 2_000 {
		fmt.Fprintf(&long, "%d w%d/1 asked\n %d w%d/1 got token %d\n", i, i, 10*i+20, i, 1024*(i+1))
		fmt.Fprintf(&long, "%d w%d/1 releasing\n %d w%d/1 released\n", 10*i+21, i, 10*i+23, i)
	}
	h := peer.Must(history.NewHistory(historytext.Events(long.String())))(t)
	require.NoError(t, linear.Check(h, leases, time.Minute))
	require.ErrorContains(t, linear.Check(h, leases, 1), "not decided in 1ns")
}
