package memory

import (
	"errors"
	"net/url"
	"sync"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
)

func init() {
	lockport.Register(lockport.Scheme{
		Name:         "memory",
		Open:         open,
		Example:      "memory:",
		Capabilities: capabilities,
	})
}

// shared has this process's servers for URLs, by the part after "memory:".
var shared sync.Map

// SharedServer returns the server of "memory:NAME" in this process, and creates it if it is missing. It lives as long as the process.
func SharedServer(name string) *Server {
	s, _ := shared.LoadOrStore(name, NewServer())
	return s.(*Server)
}

func open(u *url.URL, _ lockport.SchemeOptions) (driver.Backend, error) {
	if u.Host != "" || u.Path != "" || u.User != nil || u.Fragment != "" {
		return nil, errors.New(`a memory URL is "memory:" or "memory:NAME"`)
	}
	if err := lockurl.Of(u).Err(); err != nil {
		return nil, err
	}
	return NewBackend(Options{Server: SharedServer(u.Opaque)}), nil
}
