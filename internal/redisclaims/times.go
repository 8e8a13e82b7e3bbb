package redisclaims

import (
	"math"
	"time"
)

// How often a waiter polls without being notified.
const (
	PollHeard   = 5 * time.Second        // subscribed: the safety net under notification
	PollUnheard = 250 * time.Millisecond // not subscribed yet, or not permitted to
	PollForeign = 100 * time.Millisecond // behind a foreign client, which announces no release
)

// TombstoneTTL is how long a server refuses an abandoned claim that may still arrive.
const TombstoneTTL = time.Minute

// MaxTTL is beyond any sensible TTL and far from overflow.
const MaxTTL time.Duration = math.MaxInt64 / 4
