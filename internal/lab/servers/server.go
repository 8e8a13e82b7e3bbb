package servers

import (
	"context"
	"crypto/rand"
	"database/sql"
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
	// stopTime is how long Stop waits before it kills the server.
	stopTime = 5 * time.Second
	// requestTime bounds one request to a server.
	requestTime = 5 * time.Second
)

// kind describes how to run one kind of server.
type kind struct {
	name  string  // of the program, for messages and the folder
	path  string  // empty: find it
	port  int     // 0: a free one
	url   url.URL // of the server, without its host
	env   []string
	tls   bool           // it gets a certificate
	clock bool           // it gets a private clock if possible: see JumpClock
	end   syscall.Signal // asks it to stop; 0: SIGTERM
	// family: it consists of several processes. Kill, Freeze and Thaw reach its children too.
	family bool
	// revive: it is started again if it ends by itself, as a service manager would.
	revive bool

	// configure writes the server's configuration into dir and its initial data into dir/data. It returns the arguments.
	configure func(ctx context.Context, dir string, port int) (args []string, err error)
	// ready returns nil if the server serves. A member of a quorum does so only with a majority.
	ready func(ctx context.Context, s *Server) error
	// leads reports whether a member of a quorum believes that it is the leader; nil: it is no member.
	leads func(ctx context.Context, s *Server) (bool, error)

	// Admin opens the administrator's connections to a SQL server: a new one for each use, since the server may have been killed since the last one.
	Admin *sql.DB
}

// userPassword and adminPassword are the passwords of the ordinary users and of the administrators of all servers of this process.
var userPassword, adminPassword = sync.OnceValue(rand.Text), sync.OnceValue(rand.Text)

// Server is the common part of all servers: a child of this process. Its port and folder stay the same across restarts. Safe for concurrent use.
type Server struct {
	kind
	dir    string
	args   []string
	shared bool // all tests of this process use it

	mu     sync.Mutex
	proc   *worker.Process // the last one started; nil before the first start
	ended  bool            // proc was asked to end
	closed bool

	revivals int // see Revivals
}

// start runs a server of kind k in a new folder and returns when it is ready.
func start(ctx context.Context, k kind) (*Server, error) {
	s := &Server{kind: k}
	err := s.create(ctx)
	if err == nil {
		err = s.Restart(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// create finds the program and a port, and makes the folder.
func (s *Server) create(ctx context.Context) (err error) {
	if s.clock = s.clock && ClockInstalled() == nil; s.clock {
		s.env = append(s.env, clockEnv...)
	}
	if s.path == "" {
		if s.path, err = find(s.name); err != nil {
			return err
		}
	}
	if s.port == 0 {
		if s.port, err = freePort(); err != nil {
			return err
		}
	}
	s.url.Host = hostPort(s.port)
	if s.dir, err = Folder(s.name); err != nil {
		return err
	}
	return s.prepare(ctx)
}

// dataVariable names the folder of all servers' folders; "" stands for that of temporary files.
const dataVariable = "LOCKPORT_TEST_DATA"

// Folder makes an empty folder, with name in its own. It is removed when this process ends, however it ends.
func Folder(name string) (string, error) {
	above, err := processFolder()
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(above, "lockport-"+name+"-")
}

// prepare fills the folder.
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
	return own(s.dir)
}

// Addr returns the server's address, "127.0.0.1:port". It stays the same across restarts.
func (k *kind) Addr() string { return k.url.Host }

// URL returns the server's URL, with the credentials of the ordinary user if there are any: "redis://:password@127.0.0.1:port",
// "etcd://127.0.0.1:port", "zookeeper://127.0.0.1:port", "postgres://lockport:password@127.0.0.1:port/lockport", or
// "mysql://lockport:password@127.0.0.1:port/lockport". With TLS, the scheme is rediss or etcds, and MariaDB's URL ends with "?tls=true".
func (k *kind) URL() string { return k.url.String() }

// UserURL returns URL for another user.
func (k *kind) UserURL(user, password string) string {
	u := k.url
	u.User = url.UserPassword(user, password)
	return u.String()
}

// Dir returns the server's folder. Its subfolder data holds the server's state.
func (s *Server) Dir() string { return s.dir }

// WipeData removes all of the server's data, as if its disk had been lost. The server must be down.
func (s *Server) WipeData() error {
	return s.control(func() error {
		if err := os.RemoveAll(dataDir(s.dir)); err != nil {
			return err
		}
		return s.prepare(context.Background())
	})
}

// Kill ends the server with SIGKILL, frozen or not, and returns when it has ended. Killing a server that is down does nothing. Kill, Stop, Restart,
// Freeze, Thaw and WipeData do nothing to a shared server and return an error that matches [errors.ErrUnsupported].
func (s *Server) Kill() error { return s.control(s.kill) }

// Stop asks the server to stop, so that it saves what it is configured to save, and kills it after 5 s; it kills etcd, whose data survive
// that, at once. It returns when the server has ended. Stopping a server that is down does nothing.
func (s *Server) Stop() error { return s.control(s.stop) }

// Freeze stops the server's processes with SIGSTOP: connections stay open and nothing answers. It is an error if the server is down.
func (s *Server) Freeze() error {
	return s.control(func() error { return s.signal(worker.Freeze, s.proc.Freeze) })
}

// Thaw resumes a frozen server. It is an error if the server is down.
func (s *Server) Thaw() error { return s.control(s.thaw) }

// RestartEmpty kills the server, wipes its data, and restarts it. ctx bounds the start.
func (s *Server) RestartEmpty(ctx context.Context) error {
	if err := errors.Join(s.Kill(), s.WipeData()); err != nil {
		return err
	}
	return s.Restart(ctx)
}

// Restart stops the server if it runs, starts it again, and returns when it is ready. Its options determine which data survive. ctx bounds the start.
func (s *Server) Restart(ctx context.Context) error {
	var p *worker.Process
	err := s.control(func() (err error) {
		p, err = s.startProcess()
		return err
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	ended := errors.New("it exited during startup")
	defer context.AfterFunc(p.Context(), func() { cancel(ended) })()
	err = Poll(ctx, func(ctx context.Context) error {
		err := s.ready(ctx, s)
		if !p.Alive() { // another server answered
			return ended
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("servers: %s on %s: %w; end of its log:\n%s", s.name, s.Addr(), err, s.Log())
	}
	return nil
}

// Serves waits until the server serves. A member of a cluster or an ensemble serves only with a majority.
func (s *Server) Serves(ctx context.Context) error {
	return Poll(ctx, func(ctx context.Context) error { return s.ready(ctx, s) })
}

// Close kills the server with SIGKILL and removes its folder. Further calls do nothing. Close does nothing to a shared server.
func (s *Server) Close() error {
	if s.shared {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.Admin != nil {
		_ = s.Admin.Close()
	}
	if s.proc != nil {
		_ = s.kill()
	}
	return os.RemoveAll(s.dir)
}

// Log returns the end of the server's log, for messages.
func (s *Server) Log() string {
	text, _ := os.ReadFile(filepath.Join(s.dir, logName))
	return string(text[max(0, len(text)-4<<10):])
}

// control calls f with the mutex held, unless the server is shared.
func (s *Server) control(f func() error) error {
	if s.shared {
		return fmt.Errorf("servers: this %s is shared; use a server that the test started itself: %w", s.name, errors.ErrUnsupported)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return f()
}

func (s *Server) self() *Server { return s }

// accepts returns nil if the server accepts connections.
func accepts(ctx context.Context, s *Server) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
	if err != nil {
		return err
	}
	return conn.Close()
}

func dataDir(dir string) string { return filepath.Join(dir, "data") }

func overTLS(scheme string, tls bool) string {
	if tls {
		return scheme + "s"
	}
	return scheme
}
