package worker

import (
	"context"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
)

// launcher runs functions on one thread that lives as long as the process. The kernel sends Pdeathsig when the parent
// *thread* ends, and Go ends threads, namely those whose locked goroutine returned: so children must not be
// started from just any.
var launcher = sync.OnceValue(func() chan<- func() {
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

// start starts cmd so that it is killed when this process ends, however that happens. ended is to be called when
// it has been waited for.
func start(cmd *exec.Cmd) (ended func(), err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	launcher() <- func() { started <- cmd.Start() }
	return func() {}, <-started
}
