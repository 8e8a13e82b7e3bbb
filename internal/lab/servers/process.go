package servers

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/lockport/lockport/internal/lab/worker"
	"time"
)

// logName is the file in a server's folder that gets its standard output and error.
const logName = "server.log"

// process is a running child. Its methods are safe for concurrent use; once it has ended they do nothing.
type process struct {
	cmd    *exec.Cmd
	end    os.Signal     // what asks it to end
	family bool          // signals are for its children too
	done   chan struct{} // closed when the child has ended and is reaped
}

// startProcess runs program in the folder dir, its output appended to the log there.
func startProcess(dir string, program *program, user *lesser, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(dir, logName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(program.path, args...)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = dir, program.env, log, log
	cmd.SysProcAttr = user.attributes()
	ended, err := worker.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	p := &process{cmd: cmd, end: program.end, family: program.family, done: make(chan struct{})}
	if p.end == nil {
		p.end = syscall.SIGTERM
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // how it ended is in its log
		ended()
	}()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

func (p *process) alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// kill ends the child with SIGKILL, stopped or not, and waits for its end.
func (p *process) kill() {
	children := p.children()
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.done
	for _, c := range children {
		_ = c.Kill()
	}
	for _, c := range children {
		waitGone(c)
	}
}

// children are the processes that the child has started, where signals are for them too. It is stopped first, so that it starts no others.
func (p *process) children() []*os.Process {
	if !p.family || !p.alive() || worker.Freeze(p.cmd.Process) != nil {
		return nil
	}
	return childrenOf(p.pid())
}

// errDown says that there is no process to signal.
var errDown = errors.New("servers: the server is down")

func (p *process) freeze() error { return p.signal(worker.Freeze) }

func (p *process) thaw() error { return p.signal(worker.Thaw) }

func (p *process) signal(send func(*os.Process) error) error {
	for _, c := range p.children() {
		if err := send(c); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	if err := send(p.cmd.Process); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return errDown
}

// stop asks the child to end, and kills it if it has not after grace.
func (p *process) stop(grace time.Duration) {
	_ = p.cmd.Process.Signal(p.end)
	_ = p.signal(worker.Thaw) // a stopped process takes no signal
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
	case <-timer.C:
		p.kill()
	}
}

// tail returns the end of the log in dir, at most max bytes, or why there is none.
func tail(dir string, max int64) string {
	log, err := os.Open(filepath.Join(dir, logName))
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return ""
		}
		return err.Error()
	}
	defer func() { _ = log.Close() }()
	if info, err := log.Stat(); err == nil && info.Size() > max {
		_, _ = log.Seek(-max, io.SeekEnd)
	}
	text, err := io.ReadAll(log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
