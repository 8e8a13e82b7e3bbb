package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/pflag"
)

type verb struct {
	name    string
	summary string // one line, for the list
	run     func(ctx context.Context, c *console, args []string) error
}

// verbs lists the verbs in the order of help.
func verbs() []verb {
	return []verb{
		{"run", "run a command while holding a lock", runVerb},
		{"status", "show the holders of locks, and how many wait", statusVerb},
		{"break", "end another holder's lock by force, after showing it", breakVerb},
		{"doctor", "check for server settings that put locks at risk", doctorVerb},
		{"conform", "test a lock server against the rules of a lock", conformVerb},
		{"compare", "measure locks and show how they fail, on real servers", compareVerb},
		{"backends", "list the backends, their URLs and promises", backendsVerb},
		{"help", "show this list, or describe a verb", helpVerb},
		{"version", "show the version", versionVerb},
	}
}

//go:embed help/*.txt
var helpTexts embed.FS

func (v *verb) help() string {
	text, _ := helpTexts.ReadFile("help/" + v.name + ".txt") // a test finds a missing file
	return string(text)
}

func findVerb(name string) (*verb, error) {
	var names []string
	for _, v := range verbs() {
		if v.name == name {
			return &v, nil
		}
		names = append(names, v.name)
	}
	known := strings.Join(names, ", ")
	if strings.HasPrefix(name, "-") {
		option, _, _ := strings.Cut(name, "=") // the rest may be a secret
		return nil, usagef("the verb comes first, then its options: lockport VERB %s …; known: %s", option, known)
	}
	return nil, usagef("unknown verb %q; known: %s", name, known)
}

func dispatch(ctx context.Context, c *console, args []string) error {
	if len(args) == 0 {
		_ = writeHelp(c.err)
		return exitWith(exitUsage)
	}
	if hidden, ok := hiddenVerbs[args[0]]; ok {
		return hidden(c, args[1:])
	}
	switch args[0] {
	case "-h", "--help":
		args = append([]string{"help"}, args[1:]...)
	case "--version":
		args = []string{"version"}
	}
	v, err := findVerb(args[0])
	if err != nil {
		return err
	}
	if err = v.run(ctx, c, args[1:]); errors.Is(err, pflag.ErrHelp) {
		_, err = io.WriteString(c.out, v.help())
	}
	return err
}

func writeHelp(w io.Writer) error {
	var b strings.Builder
	b.WriteString("lockport: distributed locks for commands.\n\nUsage: lockport VERB [ARGUMENT…]\n\n")
	for _, v := range verbs() {
		fmt.Fprintf(&b, "  %-9s %s\n", v.name, v.summary)
	}
	b.WriteString(`
Example:
  lockport run nightly-report -- ./report.sh

"lockport VERB --help" describes a verb. The lock server is chosen by --url or LOCKPORT_URL;
without either, locks are files of this machine and user, and no server is needed.
`)
	_, err := io.WriteString(w, b.String())
	return err
}

func helpVerb(ctx context.Context, c *console, args []string) error {
	options := newOptions("help")
	if err := options.parse(args); err != nil {
		return err
	}
	switch options.NArg() {
	case 0:
		return writeHelp(c.out)
	case 1:
		return dispatch(ctx, c, []string{options.Arg(0), "--help"})
	}
	return usagef("help takes one verb")
}

func versionVerb(_ context.Context, c *console, args []string) error {
	if err := newOptions("version").parseAlone(args); err != nil {
		return err
	}
	version := "(devel)"
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		version = info.Main.Version
	}
	_, err := fmt.Fprintf(c.out, "lockport %s %s %s/%s\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}
