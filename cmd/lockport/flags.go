package main

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// options are the options of a verb. They may stand before and behind other arguments, up to "--".
type options struct{ *pflag.FlagSet }

func newOptions(verb string) options {
	o := options{pflag.NewFlagSet(verb, pflag.ContinueOnError)}
	o.SetOutput(io.Discard) // the error says it
	return o
}

// text adds an option that takes any text.
func (o options) text(to *string, name string) { o.StringVar(to, name, *to, "") }

// flag adds an option without a value. short may be empty.
func (o options) flag(to *bool, name, short string) { o.BoolVarP(to, name, short, *to, "") }

// duration adds an option that takes a duration of at least smallest.
func (o options) duration(to *time.Duration, smallest time.Duration, name, short string) {
	o.FuncP(name, short, "", func(s string) error {
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
	})
}

// count adds an option that takes a number of at least 1.
func (o options) count(to *int, name string) {
	o.Func(name, "", func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return usagef("bad number %q: want at least 1", s)
		}
		*to = n
		return nil
	})
}

// list adds an option that may be given several times, and takes several values with commas between them.
func (o options) list(to *[]string, name string) {
	o.Func(name, "", func(s string) error {
		for value := range strings.SplitSeq(s, ",") {
			*to = append(*to, strings.TrimSpace(value))
		}
		return nil
	})
}

// arguments is what is left when the options are taken out.
type arguments struct {
	before []string // in front of "--"
	dashes bool     // there was a "--"
	after  []string // behind it, untouched
}

// parse takes the options out of args.
func (o options) parse(args []string) (arguments, error) {
	if err := o.Parse(args); err != nil {
		return arguments{}, usagef("%s; try: lockport %s --help", oneLine(err.Error()), o.Name())
	}
	rest, n := o.Args(), o.ArgsLenAtDash()
	if n < 0 {
		return arguments{before: rest}, nil
	}
	return arguments{before: rest[:n], dashes: true, after: rest[n:]}, nil
}

// parseAlone parses args of a verb that takes nothing but options.
func (o options) parseAlone(args []string) error {
	a, err := o.parse(args)
	if err == nil && (len(a.before) > 0 || a.dashes) {
		err = usagef("%s takes options only; try: lockport %s --help", o.Name(), o.Name())
	}
	return err
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
