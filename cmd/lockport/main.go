// Command lockport runs commands under a distributed lock, and shows and proves what lock servers promise.
//
//	lockport run nightly-report -- ./report.sh
//
// "lockport help" lists its verbs, and "lockport VERB --help" describes one.
package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	_ "github.com/lockport/lockport/backend/all"
	"github.com/lockport/lockport/compare"
	"github.com/lockport/lockport/conformance"
)

func main() {
	conformance.WorkerMain(openTarget)
	compare.WorkerMain()
	os.Exit(run(os.Args[1:]))
}

// run carries out a command line and returns the exit code. It writes the one message that an error carries.
func run(args []string) int {
	c := newConsole()
	err := dispatch(context.Background(), c, args)
	if err == nil {
		return exitOK
	}
	code := exitFailed
	var exit *exitError
	if errors.As(err, &exit) {
		code = exit.code
	}
	if err.Error() != "" {
		c.say("%s", err)
	}
	return code
}

// dispatch finds the verb and carries it out.
func dispatch(ctx context.Context, c *console, args []string) error {
	if len(args) == 0 {
		writeHelp(c.err)
		return exitWith(exitUsage)
	}
	if stage, ok := hiddenStages[args[0]]; ok {
		return stage(c, args[1:])
	}
	switch args[0] {
	case "-h", "--help":
		args = append([]string{"help"}, args[1:]...)
	case "--version":
		args = []string{"version"}
	}
	v := findVerb(args[0])
	if v == nil && strings.HasPrefix(args[0], "-") {
		return usagef("the verb comes first, then its options: lockport VERB %s …; known: %s", firstOf(args[0], "="), verbNames())
	}
	if v == nil {
		return usagef("unknown verb %q; known: %s", args[0], verbNames())
	}
	if wantsHelp(args[1:]) {
		_, err := io.WriteString(c.out, v.help)
		return err
	}
	return v.run(ctx, c, args[1:])
}
