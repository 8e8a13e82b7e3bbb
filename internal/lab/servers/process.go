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
	"strings"
	"syscall"
	"time"

	"github.com/lockport/lockport/internal/lab/worker"
)

// logName is the file in a server's folder for its standard output and error.
const logName = "server.log"

// startProcess stops the child if there is one, and starts another. The caller holds the mutex, here and below.
func (s *Server) startProcess() (*worker.Process, error) {
	if s.closed {
		return nil, fmt.Errorf("servers: %s is closed", s.name)
	}
	if s.proc != nil {
		_ = s.stop()
	}
	log, err := os.OpenFile(filepath.Join(s.dir, logName), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = log.Close() }()
	cmd := exec.Command(s.path, s.args...)
	// A server does not inherit our environment: etcd, for one, reads settings from it.
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = s.dir, append(s.env, "PATH="+os.Getenv("PATH")), log, log
	cmd.SysProcAttr = asNobody()
	p, err := worker.Run(cmd)
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	s.proc, s.ended = p, false
	if s.revive {
		context.AfterFunc(p.Context(), func() { s.reviveAfter(p) })
	}
	return p, nil
}

// reviveAfter starts the server again after the end of p, if nobody asked for that.
func (s *Server) reviveAfter(p *worker.Process) {
	time.Sleep(100 * time.Millisecond) // as systemd does
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == p && !s.ended {
		s.revivals++
		_, _ = s.startProcess() // with an error, it stays down
	}
}

// Revivals is how often the server was started again because it had ended by itself.
func (s *Server) Revivals() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.revivals
}

// runTool runs a program that comes with a server, such as its installer, as the user of the servers. dir becomes its folder; empty: a folder of ours.
func runTool(ctx context.Context, dir, input, name string, args ...string) error {
	path, err := find(name)
	if err != nil {
		return err
	}
	if dir != "" {
		if err := own(dir); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, pollTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Dir, cmd.SysProcAttr, cmd.Stdin = dir, asNobody(), strings.NewReader(input)
	cmd.WaitDelay = time.Second // pg_basebackup has a child that keeps its output open until the primary ends
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("servers: %s: %w:\n%s", name, errors.Join(context.Cause(ctx), err), out)
	}
	return nil
}

// kill ends the child and its children with SIGKILL, stopped or not, and waits until they have ended.
func (s *Server) kill() error {
	s.ended = true
	children := s.children()
	s.proc.Kill()
	for _, c := range children {
		_ = c.Kill()
	}
	return Poll(context.Background(), func(context.Context) error {
		if slices.ContainsFunc(children, func(c *os.Process) bool { return worker.Running(c.Pid) }) {
			return errors.New("its children still run")
		}
		return nil
	})
}

// children returns the child's child processes if signals must reach them too. It stops the child first, so that it starts no others.
func (s *Server) children() []*os.Process {
	if !s.family || !s.proc.Alive() || s.proc.Freeze() != nil {
		return nil
	}
	return childrenOf(s.proc.Pid())
}

// signal signals the children first, then the child itself.
func (s *Server) signal(child func(*os.Process) error, itself func() error) error {
	for _, c := range s.children() {
		if err := child(c); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return err
		}
	}
	if err := itself(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return errors.New("servers: the server is down")
}

func (s *Server) thaw() error { return s.signal(worker.Thaw, s.proc.Thaw) }

// stop asks the child to end, and kills it after stopTime.
func (s *Server) stop() error {
	s.ended = true
	_ = s.proc.Signal(cmp.Or(s.end, syscall.SIGTERM))
	_ = s.thaw() // a stopped process handles no signal
	select {
	case <-s.proc.Context().Done():
		return nil
	case <-time.After(stopTime):
		return s.kill()
	}
}
