package servers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/lockport/lockport/internal/lab/worker"
)

const (
	// stopTime is how long a server may take to end by itself.
	stopTime = 5 * time.Second
	// requestTime bounds one request to a server.
	requestTime = 5 * time.Second
)

// kind says how one kind of server is run.
type kind struct {
	name  string // of the program, for messages and the folder
	path  string // empty: wherever the program is found
	port  int    // 0: a free one
	env   []string
	tls   bool           // it gets a certificate
	clock bool           // it gets a clock of its own: see JumpClock
	end   syscall.Signal // asks it to end; 0: SIGTERM
	// family: it consists of several processes, and Kill, Freeze and Thaw are for its children too.
	family bool

	// configure writes into dir what the server reads, and into dir/data what it starts with. It returns the arguments.
	configure func(ctx context.Context, dir string, port int) (args []string, err error)
	// ready returns nil if the server serves.
	ready func(ctx context.Context, addr string) error
}

// Server is what all servers have in common: a child of this process, with a port and a folder that stay the same over restarts. Safe for concurrent use.
type Server struct {
	kind
	user   *lesser
	dir    string
	addr   string
	args   []string
	shared bool // by all tests of this process

	mu     sync.Mutex
	proc   *worker.Process // the last one started; nil before the first start
	closed bool
}

// sharedKey is the key under which a context has the folder of servers that last as long as this process.
type sharedKey struct{}

// start runs a server of kind k in a new folder, and returns when it is ready.
func start(ctx context.Context, k kind) (_ *Server, err error) {
	if k.clock {
		k.env = append(k.env, clockEnv...)
	}
	s := &Server{kind: k}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.user, err = lesserUser(); err != nil {
		return nil, err
	}
	if s.path == "" {
		if s.path, err = find(s.name); err != nil {
			return nil, err
		}
	}
	if s.port == 0 {
		if s.port, err = freePort(); err != nil {
			return nil, err
		}
	}
	s.addr = hostPort(s.port)
	above, lasting := ctx.Value(sharedKey{}).(string)
	if s.dir, err = os.MkdirTemp(above, "lockport-"+k.name+"-"); err != nil {
		return nil, err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	if err := s.launch(ctx); err != nil {
		return nil, err
	}
	s.shared = lasting
	return s, nil
}

// prepare makes the contents of the folder.
func (s *Server) prepare(ctx context.Context) (err error) {
	if s.tls {
		if err := writeTLS(s.dir); err != nil {
			return err
		}
	}
	if s.clock {
		if err := writeClock(s.dir); err != nil {
			return err
		}
	}
	if s.args, err = s.configure(ctx, s.dir, s.port); err != nil {
		return err
	}
	return s.user.own(s.dir)
}

// launch ends the child if there is one, starts another and waits until that is ready.
func (s *Server) launch(ctx context.Context) error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fmt.Errorf("servers: %s is closed", s.name)
	}
	if s.proc != nil {
		s.stop()
	}
	p, err := s.startProcess()
	if err == nil {
		s.proc = p
	}
	s.mu.Unlock()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := errors.New("it ended at its start")
	defer context.AfterFunc(p.Context(), func() { cancel(ended) })()
	err = Poll(ctx, func(ctx context.Context) error {
		err := s.ready(ctx, s.addr)
		if !p.Alive() { // whoever answers is another server
			return ended
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("servers: %s on %s: %w; its log ends:\n%s", s.name, s.addr, err, s.Log())
	}
	return nil
}

// Addr is the server's address, "127.0.0.1:port". It stays the same over restarts.
func (s *Server) Addr() string { return s.addr }

// Dir is the server's temporary folder, whose folder data has what it remembers.
func (s *Server) Dir() string { return s.dir }

// Pid is the process id of the server, or of the last process it had.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc.Pid()
}

// TLSConfig trusts the server's certificate, which is for 127.0.0.1 and localhost, and lives as long as this process; nil without TLS. Clients need no
// certificate. The caller owns it.
func (s *Server) TLSConfig() *tls.Config {
	if !s.tls {
		return nil
	}
	return clientTLS()
}

// CAFile is the PEM file of the authority that signed the server's certificate. There is none without TLS.
func (s *Server) CAFile() string { return filepath.Join(s.dir, certFile) }

// WipeData removes everything that the server remembers, as if its disk had been lost. It is an error if the server is up.
func (s *Server) WipeData() error {
	return s.control(func() error {
		if s.proc.Alive() {
			return fmt.Errorf("servers: stop the %s before its data are removed", s.name)
		}
		if err := os.RemoveAll(dataDir(s.dir)); err != nil {
			return err
		}
		return s.prepare(context.Background())
	})
}

// Kill ends the server with SIGKILL, frozen or not, and returns when it is gone. Killing a server that is down does nothing.
// Kill, Stop, Restart, Freeze, Thaw and WipeData do nothing to a shared server, and return an error that matches
// [errors.ErrUnsupported].
func (s *Server) Kill() error {
	return s.control(func() error { s.kill(); return nil })
}

// Stop asks the server to end, so that it saves what it was told to save, and kills it 5 s later. It returns
// when the server is gone. Stopping a server that is down does nothing.
func (s *Server) Stop() error {
	return s.control(func() error { s.stop(); return nil })
}

// Freeze stops the server's processes with SIGSTOP: its connections stay open and nothing answers. It is an error if
// the server is down.
func (s *Server) Freeze() error {
	return s.control(func() error { return s.signal(worker.Freeze, s.proc.Freeze) })
}

// Thaw lets a frozen server go on. It is an error if the server is down.
func (s *Server) Thaw() error { return s.control(s.thaw) }

// Restart starts the server again on its port and in its folder, after Stop if it runs, and returns when it is ready.
// What it remembers is what its options let it keep. ctx bounds the start.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.control(func() error { return nil }); err != nil {
		return err
	}
	return s.launch(ctx)
}

// Close ends the server with SIGKILL and removes its folder. Further calls do nothing. A shared server is left as it is.
func (s *Server) Close() error {
	if s == nil || s.shared {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.proc != nil {
		s.kill()
	}
	return os.RemoveAll(s.dir)
}

// Log is the end of what the server printed, for messages.
func (s *Server) Log() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, logName))
	return string(text[max(0, len(text)-4<<10):])
}

// control calls f, with the mutex held, unless the server is shared.
func (s *Server) control(f func() error) error {
	if s.shared {
		return fmt.Errorf("servers: this %s is shared; control one that the test started itself: %w", s.name, errors.ErrUnsupported)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

// self is what the servers of a group have in common.
func (s *Server) self() *Server { return s }

// accepts returns nil if the server accepts connections.
func accepts(ctx context.Context, addr string) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	return conn.Close()
}

// dataDir is where a server in the folder dir keeps what it remembers.
func dataDir(dir string) string { return filepath.Join(dir, "data") }

// serverURL is a server's for a user; without a name and a password, for anybody.
func serverURL(scheme, user, password, addr, path string) string {
	u := url.URL{Scheme: scheme, Host: addr, Path: path}
	if user != "" || password != "" {
		u.User = url.UserPassword(user, password)
	}
	return u.String()
}

// overTLS is the scheme of a protocol, which has an s where it is over TLS.
func overTLS(scheme string, tls bool) string {
	if tls {
		return scheme + "s"
	}
	return scheme
}
