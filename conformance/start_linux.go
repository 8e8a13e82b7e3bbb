package conformance

import (
	"context"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
)

// starts gives commands to the goroutine that starts all workers. The kernel kills a child when the *thread* that started it
// ends, so that must be one that never does. A worker notices by itself that its parent is gone, unless it is stopped.
var starts = sync.OnceValue(func() chan<- func() {
	c := make(chan func())
	go func() {
		pprof.SetGoroutineLabels(context.Background()) // it belongs to no case
		runtime.LockOSThread()
		for f := range c {
			f()
		}
	}()
	return c
})

// startChild starts cmd such that it dies with this process.
func startChild(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	err := make(chan error, 1)
	starts() <- func() { err <- cmd.Start() }
	return <-err
}
