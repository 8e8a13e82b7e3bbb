// Package lockurl reads what the lock URLs of several backends share: parameters, prefix, list of hosts, TLS files. It also explains why pgx could not
// use such a URL or connect.
package lockurl

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Params are the parameters of a URL. Each read removes a parameter; a missing one is the zero value. Err and Rest return the first error. Errors
// never contain the URL's user or password.
type Params struct {
	u    *url.URL
	left url.Values
	err  error
}

// Of starts reading the parameters of u.
func Of(u *url.URL) *Params { return &Params{u: u, left: u.Query()} }

// Address is a valid URL without possible secrets: user, password and parameters.
func Address(rawURL string) string {
	u, _ := url.Parse(rawURL)
	return (&url.URL{Scheme: u.Scheme, Opaque: u.Opaque, Host: u.Host, Path: u.Path}).String()
}

// Fail records an error, unless there is one already.
func (p *Params) Fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf(format, args...)
	}
}

// Err returns the first error. An unread parameter is an error too.
func (p *Params) Err() error {
	for name := range p.left {
		p.Fail("unknown URL parameter %q of a URL with the scheme %s", name, p.u.Scheme)
	}
	return p.err
}

// Rest returns the unread parameters, for the parser of a client library, and the first error.
func (p *Params) Rest() (url.Values, error) { return p.left, p.err }

// Has reports whether name is an unread parameter.
func (p *Params) Has(name string) bool { return p.left.Has(name) }

// All reads a parameter that may be repeated.
func (p *Params) All(name string) []string {
	all := p.left[name]
	p.left.Del(name)
	return all
}

// Text reads a parameter.
func (p *Params) Text(name string) string {
	all := p.All(name)
	if len(all) > 1 {
		p.Fail("the URL parameter %s is given twice", name)
	}
	return strings.Join(all, "")
}

// Bool reads a parameter that is true or false, or absent if it is missing.
func (p *Params) Bool(name string, absent bool) bool {
	if !p.Has(name) {
		return absent
	}
	text := p.Text(name)
	if text != "true" && text != "false" {
		p.Fail("bad value %q of the URL parameter %s: want true or false", text, name)
	}
	return text == "true"
}

// Int reads a positive number.
func (p *Params) Int(name string) int { return read(p, name, "a number above 0", strconv.Atoi) }

// Duration reads a positive duration.
func (p *Params) Duration(name string) time.Duration {
	return read(p, name, "something like 500ms", time.ParseDuration)
}

// read reads a positive number that parse understands.
func read[N int | time.Duration](p *Params, name, want string, parse func(string) (N, error)) N {
	if !p.Has(name) {
		return 0
	}
	text := p.Text(name)
	n, err := parse(text)
	if err != nil || n <= 0 {
		p.Fail("bad value %q of the URL parameter %s: want %s", text, name, want)
	}
	return n
}

// Prefix reads the parameter prefix into the options Prefix and NoPrefix.
func (p *Params) Prefix() (prefix string, none bool) {
	given := p.Has("prefix")
	prefix = p.Text("prefix")
	return prefix, given && prefix == ""
}

// ForGoRedis reports numbers that go-redis reads and cannot use: it would panic, stall, or send nothing.
func (p *Params) ForGoRedis() {
	for _, name := range []string{"pool_size", "min_idle_conns", "max_idle_conns", "max_active_conns", "pipeline_pool_size", "max_retries"} {
		for _, text := range p.left[name] {
			if n, err := strconv.ParseInt(text, 10, 17); errors.Is(err, strconv.ErrRange) || name == "pool_size" && n < 0 || name == "max_retries" && n < -1 {
				p.Fail("bad value %q of the URL parameter %s: no client can use it", text, name)
			}
		}
	}
}

// Hosts reads the URL's addresses, separated by commas, and those of the parameter addr, which may be repeated. Several IPv6 addresses need it.
// Addresses without a port get port.
func (p *Params) Hosts(port string) []string {
	var all []string
	for _, address := range strings.Split(strings.Join(append([]string{p.u.Host}, p.All("addr")...), ","), ",") {
		host, own, err := net.SplitHostPort(address)
		if err != nil { // no port
			host, own = strings.TrimSuffix(strings.TrimPrefix(address, "["), "]"), port
		}
		if _, err := strconv.ParseUint(own, 10, 16); err != nil || host == "" || strings.ContainsFunc(host, notInHost) {
			p.Fail("bad address %q in the URL: want host:port, several with commas between them", address)
		}
		all = append(all, net.JoinHostPort(host, own))
	}
	return all
}

// notInHost reports whether no host has r.
func notInHost(r rune) bool {
	return !unicode.IsPrint(r) || strings.ContainsRune("/?#@[] \"<>\\^`{|}", r)
}

// Prefix returns the prefix that a backend's options Prefix and NoPrefix select. The default is standard.
func Prefix(given string, none bool, standard string) (string, error) {
	switch {
	case none && given != "":
		return "", fmt.Errorf("the options NoPrefix and Prefix %q exclude each other", given)
	case !utf8.ValidString(given):
		return "", fmt.Errorf("the option Prefix %q is not valid UTF-8", given)
	case given == "" && !none:
		return standard, nil
	}
	return given, nil
}
