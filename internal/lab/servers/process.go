package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/lockport/lockport/internal/lab/worker"
)

// logName is the file in a server's folder that gets its standard output and error.
const logName = "server.log"

// process is a running child. Once it has ended, its methods do nothing.
type process struct {
	kind
	cmd  *exec.Cmd
	over context.Context // ends when the child has ended and is reaped
}

func (s *server) startProcess() (*process, error) {
	log, err := os.OpenFile(filepath.Join(s.dir, logName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(s.path, s.args...)
	// A server sees nothing of our environment: etcd, for one, would read settings there.
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, append(s.env, "PATH="+os.Getenv("PATH")), log, log
	cmd.SysProcAttr = s.user.attributes()
	ended, err := worker.Start(cmd)
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	over, end := context.WithCancel(context.Background())
	go func() {
		defer end()
		_ = cmd.Wait() // how it ended is in its log
		ended()
	}()
	return &process{s.kind, cmd, over}, nil
}

func (p *process) alive() bool { return p.over.Err() == nil }

// kill ends the child with SIGKILL, stopped or not, and waits for its end.
func (p *process) kill() {
	children := p.children()
	_ = p.cmd.Process.Kill() // fails only if it has ended
	<-p.over.Done()
	for _, c := range children {
		_ = c.Kill()
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTime)
	defer cancel()
	_ = poll(ctx, func() error {
		if slices.ContainsFunc(children, func(c *os.Process) bool { return worker.Running(c.Pid) }) {
			return errors.New("its children are alive")
		}
		return nil
	})
}

// children are the processes that the child has started, where signals are for them too. It is stopped first, so that it starts no others.
func (p *process) children() []*os.Process {
	if !p.family || !p.alive() || worker.Freeze(p.cmd.Process) != nil {
		return nil
	}
	return childrenOf(p.cmd.Process.Pid)
}

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
	return errors.New("servers: the server is down")
}

// stop asks the child to end, and kills it if it has not after stopTime.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(cmp.Or(p.end, syscall.SIGTERM))
	_ = p.signal(worker.Thaw) // a stopped process takes no signal
	select {
	case <-p.over.Done():
	case <-time.After(stopTime):
		p.kill()
	}
}
