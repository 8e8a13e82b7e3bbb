package main

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// options are the options of a verb. They may stand before and after other arguments, up to "--".
type options struct{ *pflag.FlagSet }

func newOptions(verb string) options {
	o := options{pflag.NewFlagSet(verb, pflag.ContinueOnError)}
	o.SetOutput(io.Discard) // the returned error says it
	return o
}

// duration adds an option that takes a duration of at least smallest.
func (o options) duration(to *time.Duration, smallest time.Duration, name, short string) {
	o.FuncP(name, short, "", func(s string) (err error) {
		if *to, err = time.ParseDuration(s); err != nil || *to < smallest {
			return usagef("want a duration of at least %v and at most 73 years, as in 10s, 1m30s or 250ms", smallest)
		}
		return nil
	})
}

// count adds an option that takes a number of at least 1.
func (o options) count(to *int, name string) {
	o.Func(name, "", func(s string) (err error) {
		if *to, err = strconv.Atoi(s); err != nil || *to < 1 {
			return usagef("want a number of at least 1")
		}
		return nil
	})
}

// parse removes the options from args. Args returns the rest. pflag.ErrHelp: help was requested.
func (o options) parse(args []string) error {
	err := o.Parse(args)
	if err != nil && !errors.Is(err, pflag.ErrHelp) {
		err = usagef("%s; try: lockport %s --help", harmless(err), o.Name())
	}
	return err
}

// harmless is pflag's error without the text after an option's name, which may be a secret: -url=redis://:password@host.
func harmless(err error) string {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok && unknown.GetSpecifiedShortnames() != "" {
		return fmt.Sprintf("unknown option -%s (long options take two dashes)", unknown.GetSpecifiedName())
	}
	if bad, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		option, _, _ := strings.Cut(bad.GetSpecifiedFlag(), "=")
		return "bad syntax of the option " + option
	}
	return strings.NewReplacer("unknown flag: ", "unknown option ", "flag needs", "option needs", `" flag: `, `" option: `).Replace(err.Error())
}

// parseAlone parses args of a verb that takes only options.
func (o options) parseAlone(args []string) error {
	err := o.parse(args)
	if err == nil && (o.NArg() > 0 || o.ArgsLenAtDash() >= 0) {
		err = usagef("%s takes options only; try: lockport %s --help", o.Name(), o.Name())
	}
	return err
}
