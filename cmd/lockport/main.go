// Command lockport runs commands under a distributed lock. It also shows and tests what lock servers promise.
//
//	lockport run nightly-report -- ./report.sh
//
// "lockport help" lists its verbs, and "lockport VERB --help" describes one.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"unicode"

	"github.com/go-sql-driver/mysql"

	"github.com/lockport/lockport"
	_ "github.com/lockport/lockport/backend/all"
	"github.com/lockport/lockport/compare"
	"github.com/lockport/lockport/conformance"
	"github.com/lockport/lockport/driver"
)

func main() {
	_ = mysql.SetLogger(&mysql.NopLogger{}) // it also prints the errors that it returns
	conformance.WorkerMain(openTarget)
	compare.WorkerMain()
	os.Exit(run(context.Background(), newConsole(), os.Args[1:]))
}

// run executes a command line and returns the exit code. It writes the message of an error.
func run(ctx context.Context, c *console, args []string) int {
	err := dispatch(ctx, c, args)
	if err == nil {
		return exitOK
	}
	code := exitFailed
	if exit, ok := errors.AsType[*exitError](err); ok {
		code = exit.code
	}
	if err.Error() != "" {
		c.say("%s", err)
	}
	return code
}

// Exit codes. Those of run follow flock(1) and sysexits.h. Like the flags, they are an interface.
const (
	exitOK          = 0
	exitFailed      = 1   // conform: a case failed; doctor: locks are at risk
	exitUsage       = 64  // wrong arguments, URL, option value
	exitUnavailable = 69  // the server cannot be reached, or refuses
	exitHeld        = 75  // another client has the lock
	exitLost        = 79  // the lock was lost while the command ran
	exitCannotStart = 126 // the command was found and cannot be started
	exitNotFound    = 127 // the command was not found
	exitSignal      = 128 // plus the number of the signal
)

// exitError ends the program with a code and, if not empty, a message for people.
type exitError struct {
	code    int
	message string
}

func (e *exitError) Error() string { return e.message }

// exitWith is an exitError without a message.
func exitWith(code int) error { return &exitError{code: code} }

func failf(code int, format string, args ...any) error {
	return &exitError{code, fmt.Sprintf(format, args...)}
}

func usagef(format string, args ...any) error { return failf(exitUsage, format, args...) }

// libraryError makes an exitError of an error of the library, and nil of nil. If it is not about the server, it is about the URL, an option or a name.
func libraryError(err error) error {
	if err == nil {
		return nil
	}
	code := exitUsage
	for _, class := range []error{lockport.ErrUnavailable, lockport.ErrRefused, lockport.ErrLost, driver.ErrUnknown, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, class) {
			code = exitUnavailable
		}
	}
	return failf(code, "%v", err)
}

// oneLine makes a message one line without the program's name, which say adds, and without a server's control characters.
func oneLine(s string) string {
	s = strings.ReplaceAll(strings.TrimSpace(s), "\n", "; ") // between joined errors
	s = strings.TrimPrefix(strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsGraphic(r) }), " "), "lockport: ")
	return strings.NewReplacer(": lockport: ", ": ", "; lockport: ", "; ").Replace(s)
}

// signalCode is the exit code of a program that a signal ended.
func signalCode(s syscall.Signal) int { return exitSignal + int(s) }
