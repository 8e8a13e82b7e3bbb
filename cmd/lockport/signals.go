//go:build linux || darwin

package main

import (
	"os"
	"os/signal"
	"syscall"
)

// passedOn are the signals that lockport passes on to the command. SIGTSTP comes later, see catchStop: until there is a
// command it stops lockport as it stops any program.
var passedOn = []os.Signal{
	syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
	syscall.SIGWINCH, syscall.SIGCONT,
}

// catchSignals delivers the signals that are to be passed on. Those that were ignored when lockport was started, as nohup(1)
// does, stay ignored, here and in the command.
func catchSignals() chan os.Signal {
	signals := make(chan os.Signal, 64)
	for _, s := range passedOn {
		if !signal.Ignored(s) {
			signal.Notify(signals, s)
		}
	}
	return signals
}

// catchStop delivers SIGTSTP too, so that the command stops first, or not at all.
func catchStop(signals chan<- os.Signal) {
	if !signal.Ignored(syscall.SIGTSTP) {
		signal.Notify(signals, syscall.SIGTSTP)
	}
}
