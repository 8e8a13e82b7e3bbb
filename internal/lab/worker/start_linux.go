package worker

import (
	"context"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
)

// starter runs functions on one thread that lives as long as the process. The kernel sends Pdeathsig when the parent
// *thread* ends, and Go ends threads, namely those whose locked goroutine returned: so children must not be
// started from just any.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		pprof.SetGoroutineLabels(context.Background()) // it belongs to nobody who looks for leaks by labels
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// Start starts cmd so that it is killed when this process ends, however that happens. ended is to be called when
// it has been waited for.
func Start(cmd *exec.Cmd) (ended func(), err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	starter() <- func() { started <- cmd.Start() }
	return func() {}, <-started
}
