package worker

import (
	"context"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"sync"
	"syscall"
)

// launcher runs functions on one thread that lives as long as the process. The kernel sends Pdeathsig when the parent *thread* ends. Go ends the
// thread of a locked goroutine that returns. So children must not be started from an arbitrary goroutine.
var launcher = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		pprof.SetGoroutineLabels(context.Background()) // or a leak check by labels would report it
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// start starts cmd so that it is killed when this process ends, however that happens. Call ended after cmd.Wait.
func start(cmd *exec.Cmd) (ended func(), err error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	started := make(chan error)
	launcher() <- func() { started <- cmd.Start() }
	return func() {}, <-started
}
