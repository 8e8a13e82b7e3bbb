package examine

import (
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/lockport/lockport/driver"
)

// ClockTolerance is how far clocks that are kept in order may seem apart.
const ClockTolerance = time.Second

// Offset is by how much a server's clock, which said at between two readings of ours, is ahead of ours at the least; negative: behind.
func Offset(before, at, after time.Time) time.Duration {
	switch {
	case at.Before(before):
		return at.Sub(before)
	case at.After(after):
		return at.Sub(after)
	}
	return 0
}

// Clock is the notice about a server whose clock is off ours by offset. endangers says why that matters, as a sentence without its first word: "expires…".
func Clock(where string, offset time.Duration, endangers string) []driver.Notice {
	if offset.Abs() < ClockTolerance {
		return nil
	}
	way := "ahead of"
	if offset < 0 {
		way = "behind"
	}
	return []driver.Notice{{ID: "clock-offset",
		Text: fmt.Sprintf("%sThe server's clock is %v %s this machine's: one of the two is not synchronised, and may be set at any time; %s.", where,
			offset.Abs().Round(10*time.Millisecond), way, endangers),
		Remedy: "Synchronise both (chrony, ntpd, systemd-timesyncd), by slewing rather than stepping."}}
}

// Connections is the notice about a server on which used of limit connections are in use and a client needs need.
func Connections(where string, used, limit, need int) []driver.Notice {
	if limit <= 0 || limit-used >= max(need, limit/10) {
		return nil
	}
	return []driver.Notice{{ID: "connections",
		Text: fmt.Sprintf("%s%d of the server's %d connections are in use: when none is left, a client that has lost its own gets no other, and with it loses its locks.",
			where, used, limit),
		Remedy: "Raise the limit, or close what is not needed."}}
}

// InTheClear is the notice about a password that goes to addresses without TLS.
func InTheClear(addresses []string) []driver.Notice {
	var open []string
	for _, a := range addresses {
		if !isHere(a) {
			open = append(open, a)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return []driver.Notice{{ID: "password-in-the-clear",
		Text:   fmt.Sprintf("The password goes over the network in the clear (to %s): whoever reads it can take, keep and end any lock.", strings.Join(open, ", ")),
		Remedy: "Use TLS."}}
}

// isHere says that an address is of this machine alone.
func isHere(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	ip := net.ParseIP(host)
	return host == "localhost" || strings.HasPrefix(host, "/") || ip != nil && ip.IsLoopback()
}

// Stall is the notice about a server that was busy with one thing for took, when renewals come every third of ttl.
func Stall(where, what string, took, ttl time.Duration) []driver.Notice {
	if took < ttl/3 {
		return nil
	}
	return []driver.Notice{{ID: "slow-commands",
		Text: fmt.Sprintf("%sOne command (%s) lately kept the server busy for %v, in which it answers nobody; with a TTL of %v a hold ends if it is not renewed for two thirds of that.",
			where, what, took.Round(time.Millisecond), ttl),
		Remedy: "Keep such commands off this server, or use a longer TTL."}}
}

// latencyShare is the part of a TTL that a round trip may take: a renewal is begun after a third of the TTL, and tried again until it succeeds.
const latencyShare = 20

// Latency is the notice about a server whose answers take roundTrip.
func Latency(roundTrip, ttl time.Duration) []driver.Notice {
	if ttl <= 0 || roundTrip < ttl/latencyShare {
		return nil
	}
	return []driver.Notice{{ID: "latency",
		Text: fmt.Sprintf("A round trip to the server takes %v, of a TTL of %v: a lock is valid for that much less, and few lost renewals end it.",
			roundTrip.Round(10*time.Microsecond), ttl),
		Remedy: fmt.Sprintf("Use a TTL of %v or more, or a server that is nearer.", (roundTrip*latencyShare).Round(time.Second)+time.Second)}}
}
