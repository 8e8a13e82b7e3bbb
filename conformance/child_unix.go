//go:build unix

package conformance

import (
	"os"
	"syscall"
)

// The signals that stop a process and let it go on.
var (
	stopSignal   os.Signal = syscall.SIGSTOP
	resumeSignal os.Signal = syscall.SIGCONT
)
