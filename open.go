package lockport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
)

// Scheme opens a backend by URL. A backend registers its schemes when it is imported.
type Scheme struct {
	// Name is the URL's scheme: "redis".
	Name string
	// Open makes a backend of u without I/O. Unknown parameters are errors. The parameter ttl, common to all schemes, is in o instead of u. Errors
	// never contain u's password.
	Open func(u *url.URL, o SchemeOptions) (driver.Backend, error)
	// Example is a URL to show to people.
	Example string
	// Params describes the URL's parameters except ttl.
	Params []Param
	// Capabilities are those of a backend opened with Example.
	Capabilities driver.Capabilities
}

// SchemeOptions are further arguments of Scheme.Open.
type SchemeOptions struct {
	// TTL is the default TTL of the client; session backends use it for their session. Never zero.
	TTL time.Duration
}

// Param describes one parameter of a URL.
type Param struct {
	Name, Text string
}

// Mux opens backends by URL. Its zero value has no schemes. Safe for concurrent use.
type Mux struct {
	mu      sync.RWMutex
	schemes map[string]Scheme
}

// Register adds a scheme. It panics if the scheme is already registered.
func (m *Mux) Register(s Scheme) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, dup := m.schemes[s.Name]; dup {
		panic("lockport: scheme " + s.Name + " is registered twice")
	}
	if m.schemes == nil {
		m.schemes = make(map[string]Scheme)
	}
	m.schemes[s.Name] = s
}

// Schemes returns the registered schemes, sorted by name.
func (m *Mux) Schemes() []Scheme {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return slices.SortedFunc(maps.Values(m.schemes), func(a, b Scheme) int { return strings.Compare(a.Name, b.Name) })
}

// OpenBackend makes the backend of rawURL, without a client and without I/O. It returns the TTL of the URL too, or 0.
func (m *Mux) OpenBackend(rawURL string) (driver.Backend, time.Duration, error) {
	return m.openBackend(rawURL, 0)
}

// openBackend is OpenBackend with the TTL of an option, which overrides the URL unless it is 0. It does not wrap errors of net/url, which may contain
// a part of the password.
func (m *Mux) openBackend(rawURL string, ttl time.Duration) (driver.Backend, time.Duration, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, 0, errors.New("the lock URL cannot be parsed: check its scheme, host and port, move IPv6 addresses of a list to parameters such as addr, and percent-encode special characters in the password")
	}
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, 0, errors.New("the parameters of the lock URL cannot be parsed: percent-encode special characters in them")
	}
	// A question mark in a password ends the address, and the rest of the password looks like a parameter.
	if strings.Contains(u.RawQuery, "@") {
		return nil, 0, errors.New("the lock URL has an @ after its question mark: percent-encode special characters in the password, and an @ in a parameter")
	}
	if strings.Contains(strings.Join(q["addr"], ""), "@") { // perhaps a password
		return nil, 0, errors.New("an address in the lock URL has an @: give user and password once, before the first address")
	}
	if strings.Contains(u.Opaque, "@") || u.Host != "" && strings.Contains(u.EscapedPath()+u.EscapedFragment(), "@") { // so does a slash or a #
		return nil, 0, errors.New("the lock URL has an @ after its address: percent-encode special characters in the password, and an @ in the path")
	}
	if _, err := strconv.ParseUint(cmp.Or(u.Port(), "0"), 10, 16); err != nil {
		return nil, 0, errors.New("the port in the lock URL is greater than 65535")
	}
	m.mu.RLock()
	s, ok := m.schemes[u.Scheme]
	known := strings.Join(slices.Sorted(maps.Keys(m.schemes)), ", ")
	m.mu.RUnlock()
	if !ok {
		return nil, 0, fmt.Errorf("unknown scheme %q in the lock URL; known: %s (a program must import a backend's package to open it)", u.Scheme, cmp.Or(known, "none"))
	}
	// Without an address, as in "redis:/:password@host", all of it is the path. Only URLs that never have an address may have an @ there.
	if example, err := url.Parse(s.Example); err == nil && example.Host != "" && strings.Contains(u.EscapedPath()+u.EscapedFragment(), "@") {
		return nil, 0, errors.New("the lock URL has no address before its @: write scheme://user:password@host, and percent-encode an @ in the path")
	}
	var urlTTL time.Duration
	if all := q["ttl"]; len(all) > 0 {
		urlTTL, err = time.ParseDuration(all[0])
		if err != nil || urlTTL <= 0 || len(all) > 1 {
			return nil, 0, fmt.Errorf("bad duration %q of the URL parameter ttl: want one like 15s", strings.Join(all, ", "))
		}
		q.Del("ttl")
		u.RawQuery = q.Encode()
	}
	b, err := s.Open(u, SchemeOptions{TTL: cmp.Or(ttl, urlTTL, DefaultTTL)})
	return b, urlTTL, err
}

// Open makes a client of rawURL and checks its server: see Check. The option TTL overrides that of the URL. ErrInvalidOption: the URL is wrong.
func (m *Mux) Open(ctx context.Context, rawURL string, opts ...Option) (*Client, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, &Error{Op: "open", Err: err}
	}
	b, urlTTL, err := m.openBackend(rawURL, cfg.ttl)
	if err != nil {
		if !errors.Is(err, ErrInvalidOption) {
			err = fmt.Errorf("%w: %w", ErrInvalidOption, err)
		}
		return nil, &Error{Op: "open", Err: err}
	}
	if urlTTL > 0 {
		opts = append([]Option{TTL(urlTTL)}, opts...)
	}
	c, err := New(b, opts...)
	if err != nil {
		b.Close()
		return nil, err
	}
	if err := c.Check(ctx); err != nil {
		_ = within(ctx, c.Close)
		return nil, err
	}
	return c, nil
}

// defaultMux is what Register and Open use.
var defaultMux Mux

// Register adds a scheme to those that Open knows. Backends call it in an init function.
func Register(s Scheme) { defaultMux.Register(s) }

// DefaultMux returns the Mux that Register and Open use.
func DefaultMux() *Mux { return &defaultMux }

// Open makes a client of a URL such as "redis://localhost:6379" and checks its server. It fails with one clear line if the server cannot be
// reached, refuses, or cannot hold locks. Import the backend's package. ctx bounds the check.
func Open(ctx context.Context, rawURL string, opts ...Option) (*Client, error) {
	return defaultMux.Open(ctx, rawURL, opts...)
}
