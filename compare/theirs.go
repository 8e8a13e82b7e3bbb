package compare

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
)

// userSubjects are on a user's own servers. Each was opened once and has granted a lock. Further subjects of one backend have a number.
func userSubjects(ctx context.Context, urls []string) (all []subject, err error) {
	count := make(map[string]int)
	for _, rawURL := range urls {
		shown := redacted(rawURL)
		backend, ttl, err := ask(ctx, rawURL)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be measured: %w", shown, err)
		}
		s := subject{
			Subject: report.Subject{Name: backend, Title: backend, URL: shown}, ttl: ttl, setup: "the servers at " + shown,
			start: func(context.Context) (*measure.Servers, error) {
				return &measure.Servers{URL: rawURL, Close: func() error { return nil }}, nil
			},
		}
		for _, o := range ownSubjects {
			if o.Name == backend {
				s.Title, s.Page = o.Title, o.Page
			}
		}
		if backend == "mysql" {
			s.Title = "MySQL" // or MariaDB
		}
		if count[backend]++; count[backend] > 1 {
			s.Name, s.Title = fmt.Sprint(s.Name, "-", count[backend]), fmt.Sprint(s.Title, " ", count[backend])
		}
		all = append(all, s)
	}
	return all, nil
}

// ask finds out whether a server grants locks, and with which TTL: that of the URL, or a short one if the server grants it, so that takeovers take
// little time, or the default.
func ask(ctx context.Context, rawURL string) (backend string, ttl time.Duration, err error) {
	b, named, err := lockport.DefaultMux().OpenBackend(rawURL)
	if err != nil {
		return "", 0, err
	}
	backend = b.Capabilities().Backend
	_ = b.Close()
	if backend == "memory" {
		return "", 0, errors.New("its locks exist within one process, but several processes are measured: leave it out")
	}
	if named > 0 {
		return backend, named, grants(ctx, rawURL, named)
	}
	if err = grants(ctx, rawURL, ownTTL); errors.Is(err, lockport.ErrRefused) { // it may be too short for the server
		return backend, lockport.DefaultTTL, grants(ctx, rawURL, lockport.DefaultTTL)
	}
	return backend, ownTTL, err
}

// grants returns nil if the servers grant and release a lock with that TTL.
func grants(ctx context.Context, rawURL string, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	client, err := lockport.Open(ctx, rawURL, lockport.TTL(ttl), lockport.Logger(nil), lockport.Label("compare"))
	if err != nil {
		return err
	}
	defer client.Close()
	lock, err := client.Acquire(ctx, "lockport-compare-"+rand.Text()[:8])
	if err != nil {
		return err
	}
	return lock.Release(ctx)
}

// redacted is a URL without its user and its parameters, which may be secrets.
func redacted(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return "a URL that cannot be parsed"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if strings.Contains(u.Opaque+u.Path+u.RawQuery+u.Fragment, "@") { // the apparent host may be the beginning of a password
		shown = url.URL{Scheme: u.Scheme, Host: "xxxxx"}
	} else if u.User != nil {
		shown.User = url.User("xxxxx")
	}
	return shown.String()
}
