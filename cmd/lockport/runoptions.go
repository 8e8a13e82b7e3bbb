package main

import (
	"time"

	"github.com/lockport/lockport"
)

// smallestTTL leaves the command some time between SIGTERM and SIGKILL, and a late renewal some time before both.
const smallestTTL = 100 * time.Millisecond

// runOptions is the command line of run.
type runOptions struct {
	url       string
	name      string
	command   []string
	once      bool          // -n
	wait      time.Duration // -w; negative: for ever
	ttl       time.Duration // --ttl, else that of the URL, else the default
	ttlGiven  bool
	minHold   time.Duration
	killAfter time.Duration
	ignore    bool // --on-lost ignore
}

func parseRun(args []string) (runOptions, error) {
	o := runOptions{wait: -1, killAfter: -1}
	onLost := "term"
	options := newOptions("run")
	server := options.server()
	options.flag(&o.once, "no-wait", "n")
	options.duration(&o.wait, 0, "wait", "w")
	options.duration(&o.ttl, time.Millisecond, "ttl", "")
	options.duration(&o.minHold, 0, "min-hold", "")
	options.duration(&o.killAfter, 0, "kill-after", "")
	options.text(&onLost, "on-lost")
	a, err := options.parse(args)
	switch {
	case err != nil:
		return o, err
	case len(a.before) == 0:
		return o, usagef("the lock's name is missing; try: lockport run --help")
	case !a.dashes:
		return o, usagef("put -- between the lock's name and the command: lockport run %s -- COMMAND", a.before[0])
	case len(a.before) > 1:
		return o, usagef("one lock name is wanted before --, and no command: %q", a.before)
	case a.before[0] == "":
		return o, usagef("the lock's name is empty")
	case len(a.after) == 0 || a.after[0] == "":
		return o, usagef("the command is missing after --")
	case o.once && o.wait >= 0:
		return o, usagef("options -n and -w exclude each other")
	case onLost != "term" && onLost != "ignore":
		return o, usagef("option --on-lost: %q is neither term nor ignore", onLost)
	}
	o.name, o.command = a.before[0], a.after
	o.ignore = onLost == "ignore"
	o.once = o.once || o.wait == 0
	if o.url, err = server.url(); err != nil {
		return o, err
	}
	return o, o.settle()
}

// settle fills in the defaults that follow from others and checks how they relate.
func (o *runOptions) settle() error {
	o.ttlGiven = o.ttl > 0
	if !o.ttlGiven {
		o.ttl = urlTTL(o.url)
	}
	if o.ttl == 0 {
		o.ttl = lockport.DefaultTTL
	}
	switch {
	case o.ttl < smallestTTL:
		return usagef("a TTL of %v leaves no time to end a command before somebody else can have the lock: give at least %v", o.ttl, smallestTTL)
	case o.killAfter < 0:
		o.killAfter = o.ttl / 3
	case o.killAfter >= o.ttl/2:
		return usagef("option --kill-after: %v is not below half of the TTL, %v, so that a renewal that is late would end the command",
			o.killAfter, o.ttl)
	}
	return nil
}
