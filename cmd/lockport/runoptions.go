package main

import (
	"cmp"
	"slices"
	"time"

	"github.com/lockport/lockport"
)

// smallestTTL leaves time between SIGTERM and SIGKILL, and time for a late renewal before both.
const smallestTTL = 100 * time.Millisecond

type runOptions struct {
	url       string
	names     []string
	command   []string
	wait      time.Duration // -w; 0: -n; negative: forever
	ttl       time.Duration // --ttl, else that of the URL, else the default
	minHold   time.Duration
	killAfter time.Duration
	ignore    bool                     // --on-lost ignore
	mode      []lockport.AcquireOption // --shared, --permits
	keep      bool
}

func parseRun(args []string) (runOptions, error) {
	o := runOptions{wait: -1, killAfter: -1}
	onLost, permits := "term", 0
	options := newOptions("run")
	server := options.server()
	noWait := options.BoolP("no-wait", "n", false, "")
	options.duration(&o.wait, 0, "wait", "w")
	options.duration(&o.ttl, smallestTTL, "ttl", "")
	options.duration(&o.minHold, 0, "min-hold", "")
	options.duration(&o.killAfter, 0, "kill-after", "")
	options.StringVar(&onLost, "on-lost", onLost, "")
	shared := options.Bool("shared", false, "")
	options.count(&permits, "permits")
	options.BoolVar(&o.keep, "keep", false, "")
	err := options.parse(args)
	o.names = options.Args()
	if dashes := options.ArgsLenAtDash(); dashes >= 0 {
		o.names, o.command = o.names[:dashes], o.names[dashes:]
	}
	switch {
	case err != nil:
		return o, err
	case len(o.names) == 0:
		return o, usagef("the lock's name is missing; try: lockport run --help")
	case options.ArgsLenAtDash() < 0:
		return o, usagef("put -- between the lock's name and the command: lockport run %s -- COMMAND", o.names[0])
	case slices.Contains(o.names, ""):
		return o, usagef("the lock's name is empty")
	case len(o.command) == 0 || o.command[0] == "":
		return o, usagef("the command is missing after --")
	case *noWait && o.wait >= 0:
		return o, usagef("options -n and -w exclude each other")
	case *shared && permits > 0:
		return o, usagef("options --shared and --permits exclude each other")
	case onLost != "term" && onLost != "ignore":
		return o, usagef("option --on-lost: %q is neither term nor ignore", onLost)
	}
	if o.keep && (*noWait || o.wait >= 0 || *shared || permits > 0 || onLost == "ignore" || len(o.names) > 1) {
		return o, usagef("option --keep takes one name, and excludes -n, -w, --shared, --permits and --on-lost ignore")
	}
	o.ignore = onLost == "ignore"
	if *shared {
		o.mode = append(o.mode, lockport.Shared())
	}
	if permits > 0 {
		o.mode = append(o.mode, lockport.Permits(permits))
	}
	if *noWait {
		o.wait = 0
	}
	if o.url, err = server.url(); err != nil {
		return o, err
	}
	o.ttl = cmp.Or(o.ttl, urlTTL(o.url), lockport.DefaultTTL)
	switch {
	case o.ttl < smallestTTL:
		return o, usagef("a TTL of %v leaves no time to end a command before another client can acquire the lock: give at least %v", o.ttl, smallestTTL)
	case o.killAfter < 0:
		o.killAfter = o.ttl / 3
	case o.killAfter >= o.ttl/2:
		return o, usagef("option --kill-after: %v is not below half of the TTL, %v: a late renewal would end the command",
			o.killAfter, o.ttl)
	}
	return o, nil
}
