package worker

import (
	"context"
	"os"
	"os/exec"
)

// Process is a child of this process, which it does not outlive. Safe for concurrent use. The caller must Kill it, or wait until it has ended.
type Process struct {
	cmd  *exec.Cmd
	over context.Context // ends when the process has ended and been waited for
}

// Run starts cmd. When this process ends, however it ends, cmd is killed.
func Run(cmd *exec.Cmd) (*Process, error) {
	reaped, err := start(cmd)
	if err != nil {
		return nil, err
	}
	over, end := context.WithCancel(context.Background())
	go func() {
		defer end()
		_ = cmd.Wait() // State says how it ended
		reaped()
	}()
	return &Process{cmd, over}, nil
}

// Context returns a context that ends when the process has ended.
func (p *Process) Context() context.Context { return p.over }

// Alive reports whether the process runs, or is frozen.
func (p *Process) Alive() bool { return p.over.Err() == nil }

// State says how the process ended, or is nil while it runs.
func (p *Process) State() *os.ProcessState {
	if p.Alive() {
		return nil
	}
	return p.cmd.ProcessState
}

// Kill ends the process with SIGKILL, frozen or not, and returns when it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.over.Done()
}

// Pid returns the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Freeze stops the process, as a long pause of its machine would, and returns when it has stopped.
func (p *Process) Freeze() error { return Freeze(p.cmd.Process) }

// Thaw resumes a frozen process.
func (p *Process) Thaw() error { return Thaw(p.cmd.Process) }

// Signal sends the process a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }
