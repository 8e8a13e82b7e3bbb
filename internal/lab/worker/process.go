package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Process is a worker process as its parent sees it. Safe for concurrent use. The caller must Kill or End it.
type Process struct {
	cmd    *exec.Cmd
	stderr bytes.Buffer  // complete when over is closed
	over   chan struct{} // closed when the process has ended and been waited for

	mu sync.Mutex // guards in
	in io.WriteCloser
}

// Rerun starts this program again with env added to its environment. It calls line with every line of the process's standard output, in order and from
// one goroutine; line must not keep its argument. When Over is closed, line has returned for the last time.
func Rerun(line func([]byte), env ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(self), over: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.stderr
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	reaped, err := Start(p.cmd)
	if err != nil {
		return nil, err
	}
	go func() {
		defer close(p.over)
		for lines := bufio.NewReader(out); ; {
			text, err := lines.ReadBytes('\n')
			if err != nil {
				break // what has no end was cut off with the process
			}
			line(text)
		}
		_ = p.cmd.Wait()
		reaped()
	}()
	return p, nil
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

// Over is closed when the process has ended.
func (p *Process) Over() <-chan struct{} { return p.over }

// Alive reports whether the process runs, or is frozen.
func (p *Process) Alive() bool {
	select {
	case <-p.over:
		return false
	default:
		return true
	}
}

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
	<-p.over
}

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
	case <-p.over:
		return nil
	case <-time.After(d):
		p.Kill()
		return fmt.Errorf("the process did not end within %v", d)
	}
}
