package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Process is a child of this process, which does not outlive it. Safe for concurrent use. The caller must Kill or End it.
type Process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer    // of Rerun's, complete when over has ended
	over   context.Context // ends when the process has ended and been waited for

	mu sync.Mutex // guards in
	in io.WriteCloser
}

// Run starts cmd, which is killed when this process ends, however that happens.
func Run(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd}
	return p, p.run()
}

func (p *Process) run() error {
	reaped, err := start(p.cmd)
	if err != nil {
		return err
	}
	over, end := context.WithCancel(context.Background())
	p.over = over
	go func() {
		defer end()
		_ = p.cmd.Wait() // State says how it ended
		reaped()
	}()
	return nil
}

// Rerun starts this program again with env added to its environment. It calls line with every line of the process's standard output, in order and from
// one goroutine; line must not keep its argument. When Over is closed, line has returned for the last time.
func Rerun(line func([]byte), env ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(self)}
	p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = append(os.Environ(), env...), &lines{tell: line}, &p.stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	return p, p.run()
}

// lines calls tell with each whole line that is written to it. What has no end was cut off with the process.
type lines struct {
	tell func([]byte)
	rest []byte
}

func (l *lines) Write(text []byte) (int, error) {
	l.rest = append(l.rest, text...)
	for {
		i := bytes.IndexByte(l.rest, '\n')
		if i < 0 {
			return len(text), nil
		}
		l.tell(l.rest[:i])
		l.rest = l.rest[i+1:]
	}
}

// Send writes v as one line of JSON to the process's standard input.
func (p *Process) Send(v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.in.Write(append(text, '\n'))
	return err
}

// Context ends when the process has ended.
func (p *Process) Context() context.Context { return p.over }

// Over is closed when the process has ended.
func (p *Process) Over() <-chan struct{} { return p.over.Done() }

// Alive reports whether the process runs, or is frozen.
func (p *Process) Alive() bool { return p.over.Err() == nil }

// Printed returns what the process wrote to its standard error, and nothing while it runs.
func (p *Process) Printed() string {
	if p.Alive() {
		return ""
	}
	return string(bytes.TrimSpace(p.stderr.Bytes()))
}

// State says how the process has ended. Nil while it runs.
func (p *Process) State() *os.ProcessState {
	if p.Alive() {
		return nil
	}
	return p.cmd.ProcessState
}

// Kill ends the process with SIGKILL, frozen or not, and returns when it has ended.
func (p *Process) Kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.Over()
}

// Pid is the process's id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Freeze stops the process as a long pause of its machine would, and returns when it has stopped.
func (p *Process) Freeze() error { return Freeze(p.cmd.Process) }

// Thaw lets a frozen process go on.
func (p *Process) Thaw() error { return Thaw(p.cmd.Process) }

// Signal sends the process a signal.
func (p *Process) Signal(s os.Signal) error { return p.cmd.Process.Signal(s) }

// End closes the process's standard input, which asks it to end in order, and returns when it has ended. If it has not after d, End kills it and returns
// an error.
func (p *Process) End(d time.Duration) error {
	p.mu.Lock()
	_ = p.in.Close()
	p.mu.Unlock()
	select {
	case <-p.Over():
		return nil
	case <-time.After(d):
		p.Kill()
		return fmt.Errorf("the process did not end within %v", d)
	}
}
