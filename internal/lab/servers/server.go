package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	// startTime bounds a start, beside the context: far more than a busy machine needs.
	startTime = 30 * time.Second
	// stopTime is how long Stop lets a server end by itself.
	stopTime = 5 * time.Second
	// portAttempts is how many ports are tried when others take them first.
	portAttempts = 5
	tailBytes    = 4 << 10
)

// program says how one kind of server is run. Each kind has a file of its own, which embeds a *server.
type program struct {
	name       string // of the executable, for messages and the folder
	path       string
	env        []string  // of the child; nil: this process's
	portOffset int       // of a second port that the server listens on; 0: none
	tls        bool      // it gets a certificate, in its folder
	data       []string  // in its folder, what WipeData removes
	private    bool      // only this process's user can reach the program
	end        os.Signal // what asks it to end; nil: SIGTERM
	family     bool      // it consists of several processes: Kill, Freeze and Thaw are for its children too

	// configure writes into dir what the server reads, and returns its arguments. It is called once for each port tried.
	configure func(dir string, port int) (args []string, err error)
	// ready returns nil if the server serves. pid is the child's: a kind that can ask the server for its own
	// does, lest another server on the same port be taken for it.
	ready func(ctx context.Context, addr string, pid int) error
}

// server is what all servers of one process have in common: a child, on a port and in a folder that are its for good.
// Methods are safe for concurrent use.
type server struct {
	program
	user    *lesser
	dir     string
	port    int
	addr    string
	args    []string
	foreign bool // shared, or not started by us: its process is not the caller's

	mu     sync.Mutex
	proc   *process // the last one started; nil before the first start
	closed bool
}

// startServer runs p in a new folder on a port from pick, and returns when it is ready.
func startServer(ctx context.Context, p program, pick func(offset int) (int, error)) (*server, error) {
	user, err := lesserUser()
	if err != nil {
		return nil, err
	}
	above, lasting := ctx.Value(sharedKey{}).(string)
	dir, err := os.MkdirTemp(above, "lockport-"+p.name+"-")
	if err != nil {
		return nil, fmt.Errorf("servers: %w", err)
	}
	s := &server{program: p, user: user, dir: dir}
	if user != nil && p.private {
		if s.path, err = copyProgram(p.path); err != nil {
			return nil, err
		}
	}
	for range portAttempts {
		if s.port, err = pick(p.portOffset); err != nil {
			break
		}
		s.addr = hostPort(s.port)
		if p.tls {
			if err = writeTLS(dir); err != nil {
				break
			}
		}
		if s.args, err = p.configure(dir, s.port); err != nil {
			break
		}
		if err = user.own(dir); err != nil {
			break
		}
		if err = s.launch(ctx); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	s.foreign = lasting
	return s, nil
}

// sharedKey is the key under which a context has the folder of servers that last as long as this process.
type sharedKey struct{}

// copyProgram returns where everybody can execute a program.
func copyProgram(path string) (string, error) {
	dir, err := lastingFolder()
	if err != nil {
		return "", err
	}
	programs.Lock()
	defer programs.Unlock()
	copied := filepath.Join(dir, filepath.Base(filepath.Dir(path))+"-"+filepath.Base(path))
	if _, err := os.Stat(copied); err == nil {
		return copied, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	return copied, os.WriteFile(copied, text, 0o755)
}

// programs makes sure that a program is complete before another start finds it.
var programs sync.Mutex

var errPortTaken = errors.New("port is taken")

// launch ends the child if there is one, starts another and waits until that is ready.
func (s *server) launch(ctx context.Context) error {
	p, err := s.replace()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	alive, died := context.WithCancel(ctx) // whoever has our port may never answer: our child's death ends the asking
	go func() {
		defer died()
		select {
		case <-p.done:
		case <-ctx.Done():
		}
	}()
	return poll(ctx, func() error {
		err := s.ready(alive, s.addr, p.pid())
		switch {
		case p.alive():
			return err
		case portFree(s.port) && (s.portOffset == 0 || portFree(s.port+s.portOffset)):
			return stopPolling{fmt.Errorf("servers: %s ended at its start; its log ends:\n%s", s.name, tail(s.dir, tailBytes))}
		default:
			return stopPolling{fmt.Errorf("servers: %s on %s: %w; its log ends:\n%s",
				s.name, s.addr, errPortTaken, tail(s.dir, tailBytes))}
		}
	})
}

func (s *server) replace() (*process, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, fmt.Errorf("servers: %s is closed", s.name)
	}
	if s.proc != nil {
		s.proc.stop(stopTime)
	}
	p, err := startProcess(s.dir, &s.program, s.user, s.args...)
	if err == nil {
		s.proc = p
	}
	return p, err
}

// Addr is the server's address, "127.0.0.1:port". It stays the same over restarts.
func (s *server) Addr() string { return s.addr }

// Dir is the server's temporary folder; empty where the server is not the caller's alone.
func (s *server) Dir() string {
	if s.foreign {
		return ""
	}
	return s.dir
}

// Pid is the process id of the server, or of the last process it had; 0 where the server is not the caller's alone.
func (s *server) Pid() int {
	if s.control() != nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.pid()
}

// TLSConfig trusts the server's certificate, which is for 127.0.0.1 and localhost; nil without TLS. The caller owns it.
func (s *server) TLSConfig() *tls.Config {
	if !s.program.tls {
		return nil
	}
	return clientTLS()
}

// CAFile is the PEM file of the authority that signed the server's certificate; empty without TLS.
func (s *server) CAFile() string {
	if !s.program.tls {
		return ""
	}
	return filepath.Join(s.dir, caFile)
}

// WipeData removes everything that the server remembers, as if its disk had been lost. It is an error if the server is up.
func (s *server) WipeData() error {
	return s.withProcess(func(p *process) error {
		if p.alive() {
			return fmt.Errorf("servers: stop the %s before its data are removed", s.name)
		}
		var errs []error
		for _, name := range s.data {
			errs = append(errs, os.RemoveAll(filepath.Join(s.dir, name)))
		}
		return errors.Join(errs...)
	})
}

// Kill ends the server with SIGKILL, frozen or not, and returns when it is gone. Killing a server that is down does nothing.
// Kill, Stop, Restart, Freeze and Thaw return an error that matches [errors.ErrUnsupported], and do nothing, where
// the server is not the caller's alone (see [SharedRedis]).
func (s *server) Kill() error {
	return s.withProcess(func(p *process) error { p.kill(); return nil })
}

// Stop asks the server to end (with SIGTERM, Postgres with SIGINT), so that it saves what it was told to save, and kills it 5 s later. It returns
// when the server is gone. Stopping a server that is down does nothing.
func (s *server) Stop() error {
	return s.withProcess(func(p *process) error { p.stop(stopTime); return nil })
}

// Freeze stops the server's process with SIGSTOP: its connections stay open and nothing answers. It is an error if
// the server is down.
func (s *server) Freeze() error { return s.withProcess((*process).freeze) }

// Thaw lets a frozen server go on. It is an error if the server is down.
func (s *server) Thaw() error { return s.withProcess((*process).thaw) }

// Restart starts the server again on its port and in its folder, after Stop if it runs, and returns when it is ready.
// What it remembers is what its options let it keep. ctx bounds the start.
func (s *server) Restart(ctx context.Context) error {
	if err := s.control(); err != nil {
		return err
	}
	return s.launch(ctx)
}

// Close ends the server with SIGKILL and removes its folder. Further calls do nothing. A server that is not the caller's alone
// is left as it is.
func (s *server) Close() error {
	if s.foreign {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.proc != nil {
		s.proc.kill()
	}
	return os.RemoveAll(s.dir)
}

// Log is the end of what the server printed, for messages; empty where the server is not the caller's alone.
func (s *server) Log() string {
	if s.foreign {
		return ""
	}
	return tail(s.dir, tailBytes)
}

func (s *server) control() error {
	if s.foreign {
		return fmt.Errorf("servers: this %s is shared or was given from outside; control one that the test started itself: %w",
			s.name, errors.ErrUnsupported)
	}
	return nil
}

func (s *server) withProcess(f func(*process) error) error {
	if err := s.control(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return f(s.proc)
}
