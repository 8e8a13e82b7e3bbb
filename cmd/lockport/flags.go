package main

import (
	"strings"
	"time"
)

// option is one option of a verb, as getopt_long(3) knows them: "--ttl 10s", "--ttl=10s", "-w 10s", "-w10s", "-n".
// The standard flag package knows neither "-w10s" nor what stood behind "--".
type option struct {
	long, short string             // without dashes; either may be empty
	flag        *bool              // set by an option without a value
	value       func(string) error // called with the value of an option that has one
}

// arguments is what is left when the options are taken out.
type arguments struct {
	before []string // in front of "--"
	dashes bool     // there was a "--"
	after  []string // behind it, untouched
}

// parse takes options out of args. Options may stand before and behind other arguments, up to "--".
func parse(verb string, args []string, options []option) (arguments, error) {
	var out arguments
	for i := 0; i < len(args); i++ {
		arg := args[i]
		switch {
		case arg == "--":
			out.dashes, out.after = true, args[i+1:]
			return out, nil
		case len(arg) < 2 || arg[0] != '-':
			out.before = append(out.before, arg)
		default:
			o, name, value, attached := match(arg, options)
			switch {
			case o == nil:
				return out, usagef("unknown option %s; try: lockport %s --help", firstOf(arg, "="), verb)
			case o.flag != nil && attached:
				return out, usagef("option %s takes no value", name)
			case o.flag != nil:
				*o.flag = true
				continue
			case !attached && i+1 == len(args):
				return out, usagef("option %s needs a value", name)
			case !attached:
				i++
				value = args[i]
			}
			if err := o.value(value); err != nil {
				return out, usagef("option %s: %s", name, oneLine(err.Error()))
			}
		}
	}
	return out, nil
}

// match finds the option that arg names, and a value that is attached to it.
func match(arg string, options []option) (found *option, name, value string, attached bool) {
	if long, ok := strings.CutPrefix(arg, "--"); ok {
		long, value, attached = strings.Cut(long, "=")
		for i := range options {
			if options[i].long == long {
				return &options[i], "--" + long, value, attached
			}
		}
		return nil, "", "", false
	}
	for i := range options {
		if o := &options[i]; o.short != "" && strings.HasPrefix(arg[1:], o.short) {
			value = strings.TrimPrefix(arg[2:], "=")
			return o, "-" + o.short, value, len(arg) > 2
		}
	}
	return nil, "", "", false
}

func firstOf(s, sep string) string {
	first, _, _ := strings.Cut(s, sep)
	return first
}

// stringValue is the value of an option that takes any text.
func stringValue(to *string) func(string) error {
	return func(s string) error { *to = s; return nil }
}

// durationValue is the value of an option that takes a duration of at least smallest.
func durationValue(to *time.Duration, smallest time.Duration) func(string) error {
	return func(s string) error {
		d, err := time.ParseDuration(s)
		switch {
		case err != nil:
			return usagef("bad duration %q: want something like 10s, 1m30s or 250ms", s)
		case d < smallest && smallest > 0:
			return usagef("%q is too short: want at least %v", s, smallest)
		case d < smallest:
			return usagef("%q is negative", s)
		}
		*to = d
		return nil
	}
}

// wantsHelp says whether args ask for help, in front of "--".
func wantsHelp(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--":
			return false
		case "-h", "--help":
			return true
		}
	}
	return false
}
