package zookeeper

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/examine"
)

var _ driver.Examiner = (*Backend)(nil)

// membersPath is where an ensemble says who is in it.
const membersPath = "/zookeeper/config"

// connectionsNeeded is how many connections a client has at once: its session's, and a second one when the server is asked for its tick.
const connectionsNeeded = 2

// Examine implements driver.Examiner. The TTL is the session's, whatever is asked for.
func (b *Backend) Examine(ctx context.Context, _ time.Duration) (found driver.Examination, err error) {
	l, err := b.live(ctx)
	if err != nil {
		return found, err
	}
	l.mu.Lock()
	found.TTL = l.granted
	l.mu.Unlock()
	found.Notices = judgeTimes(b.o.TTL, found.TTL, b.tickTime())

	members, err := l.get(ctx, membersPath)
	switch {
	case err == nil:
		found.Notices = append(found.Notices, judgeMembers(members.data, b.servers)...)
	case refused(err) || ctx.Err() == nil && !connectionLost(err) && !oneOf(err, driver.ErrUnavailable):
		found.Notices = append(found.Notices, driver.Notice{ID: "quorum", Unknown: true,
			Text:   "The server does not let us read " + membersPath + ", so it is not known whether a server may fail.",
			Remedy: "Look yourself: three or five servers."})
	default:
		return found, unavailable(err)
	}

	servers := make([]server, len(b.servers))
	var all sync.WaitGroup
	for i, address := range b.servers {
		all.Go(func() { servers[i] = b.askWords(ctx, address, words...) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return found, unavailable(ctx.Err())
	}
	found.Server = describe(servers)
	found.Notices = append(found.Notices, judgeServers(servers)...)
	if b.clear {
		found.Notices = append(found.Notices, examine.InTheClear(b.servers)...)
	}
	return found, nil
}

// goodTicks is how many ticks a TTL should be: the validity of a claim made by an idle process is two thirds of it less a tick.
const goodTicks = 5

// judgeTimes says what the session's timeout, of which asked was asked for, endangers.
func judgeTimes(asked, granted, tick time.Duration) (notices []driver.Notice) {
	if granted < asked {
		notices = append(notices, driver.Notice{ID: "session-timeout",
			Text: fmt.Sprintf("The server grants sessions of at most %v, and %v was asked for: a holder that is silent for longer than that loses its locks.",
				granted, asked),
			Remedy: "Raise the servers' maxSessionTimeout, or ask for a shorter TTL."})
	}
	if tick > 0 && granted < goodTicks*tick {
		notices = append(notices, driver.Notice{ID: "ttl-ticks",
			Text: fmt.Sprintf("The TTL of %v is %.1f of the server's ticks of %v: a hold may be certain for as little as %v, and a short interruption ends it.",
				granted, float64(granted)/float64(tick), tick, max(granted*2/3-tick, 0).Round(time.Millisecond)),
			Remedy: fmt.Sprintf("Use a TTL of %v or more, or a shorter tickTime.", goodTicks*tick)})
	}
	return notices
}

// judgeMembers reads the list of an ensemble's members, which a server that stands alone does not have.
func judgeMembers(text string, known []string) []driver.Notice {
	voters := 0
	for one := range strings.Lines(text) {
		if strings.HasPrefix(one, "server.") && !strings.Contains(one, ":observer") {
			voters++
		}
	}
	voters = max(voters, 1)
	switch {
	case voters < 3:
		return []driver.Notice{{ID: "quorum",
			Text:   fmt.Sprintf("The ensemble has %d voting server(s), so that no lock can be taken or kept while one is away.", voters),
			Remedy: "Run three or five servers."}}
	case len(known) < 2:
		return []driver.Notice{{ID: "endpoints",
			Text:   fmt.Sprintf("Of %d servers one is known to this client, which loses its locks when that one is away.", voters),
			Remedy: "Give it the others too."}}
	}
	return nil
}

// describe says what the servers are: "ZooKeeper 3.8.0".
func describe(servers []server) string {
	for _, s := range servers {
		if v, ok := examine.ParseVersion(line(s.answers["srvr"], "Zookeeper version: ")); ok {
			return fmt.Sprintf("ZooKeeper %v", v)
		}
	}
	return ""
}

// words are the four-letter words that a server is asked, and tells is what each tells.
var (
	words = []string{"srvr", "conf", "cons"}
	tells = map[string]string{
		"srvr": "which version it is", "conf": "how many connections it takes from one machine", "cons": "how many are in use",
	}
)

// judgeServers reads what the servers said, each kind of notice once.
func judgeServers(servers []server) (notices []driver.Notice) {
	add := func(more ...driver.Notice) {
		for _, n := range more {
			if !slices.ContainsFunc(notices, func(have driver.Notice) bool { return have.ID == n.ID }) {
				notices = append(notices, n)
			}
		}
	}
	var away, unasked []string
	for _, s := range servers {
		where := ""
		if len(servers) > 1 {
			where = "Server " + s.address + ": "
		}
		if s.away {
			away = append(away, s.address)
			continue
		}
		for _, word := range words {
			if s.answers[word] == "" && !slices.Contains(unasked, word) {
				unasked = append(unasked, word)
			}
		}
		version := line(s.answers["srvr"], "Zookeeper version: ")
		if line(s.answers["srvr"], "Mode: ") != "standalone" { // which has nobody to agree with
			add(examine.Defects(where, "ZooKeeper", version, defects)...)
		}
		if v, ok := examine.ParseVersion(version); ok {
			add(examine.EndOfLife("ZooKeeper", v.String(), time.Now(), maintained, "https://zookeeper.apache.org/news")...)
		}
		limit, _ := strconv.Atoi(line(s.answers["conf"], "maxClientCnxns="))
		if used := ours(s); limit > 0 && used+connectionsNeeded > limit {
			add(driver.Notice{ID: "connections",
				Text: fmt.Sprintf("%s%d of the %d connections that the server takes from one machine (maxClientCnxns) are in use from this one: "+
					"a client that has lost its own gets no other, and with it loses its locks.", where, used, limit),
				Remedy: "Raise maxClientCnxns, or close what is not needed."})
		}
	}
	if len(away) > 0 {
		add(driver.Notice{ID: "endpoints-away",
			Text:   fmt.Sprintf("Of %d servers %d cannot be reached (%s): the ensemble may fail with the next one.", len(servers), len(away), strings.Join(away, ", ")),
			Remedy: "Bring them back."})
	}
	if len(unasked) > 0 {
		var unknown []string
		for _, word := range unasked {
			unknown = append(unknown, tells[word])
		}
		add(driver.Notice{ID: "four-letter-words", Unknown: true,
			Text:   fmt.Sprintf("The server does not answer %s, so it is not known %s.", strings.Join(unasked, ", "), strings.Join(unknown, ", ")),
			Remedy: "Set 4lw.commands.whitelist=srvr,conf,cons, or look yourself."})
	}
	return notices
}

// ours counts the connections that the server has from this machine, without that of the question: " /10.0.0.1:50312[1](queued=0,…".
func ours(s server) (n int) {
	host, _, err := net.SplitHostPort(s.us)
	if err != nil {
		return 0
	}
	for one := range strings.Lines(s.answers["cons"]) {
		end := strings.Index(one, "[")
		if end < 0 {
			continue
		}
		from := strings.TrimPrefix(strings.TrimSpace(one[:end]), "/")
		if h, _, err := net.SplitHostPort(from); err == nil && h == host && from != s.us {
			n++
		}
	}
	return n
}
