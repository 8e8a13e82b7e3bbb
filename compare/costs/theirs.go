package costs

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/report"
)

// theirs are the subjects of a user's own servers, each of which was opened once, and has granted a lock. Several of one backend have numbers.
func theirs(ctx context.Context, urls []string) (all []subject, err error) {
	count := make(map[string]int)
	for _, rawURL := range urls {
		shown := redacted(rawURL)
		backend, ttl, err := ask(ctx, rawURL)
		if err != nil {
			return nil, fmt.Errorf("%s cannot be measured: %w", shown, err)
		}
		s := subject{
			Subject: report.Subject{Name: backend, Title: backend, URL: shown}, ttl: ttl, setup: "servers that were there before, at " + shown,
			start: func(context.Context) (*stage, error) {
				return &stage{rawURL, func() error { return nil }}, nil
			},
		}
		for _, o := range ours {
			if o.Name == backend {
				s.Title, s.Page = o.Title, o.Page
			}
		}
		if backend == "mysql" {
			s.Title = "MySQL" // or MariaDB
		}
		all = append(all, s)
		count[s.Name]++
	}
	next := make(map[string]int)
	for i := range all {
		s := &all[i]
		if next[s.Name]++; count[s.Name] > 1 {
			n := next[s.Name]
			s.Name, s.Title = fmt.Sprint(s.Name, "-", n), fmt.Sprint(s.Title, " ", n)
		}
	}
	return all, nil
}

// ask asks a server whether it grants locks, and with which TTL: that of the URL, or a short one if the server grants it, so that what a holder's death
// costs is soon seen.
func ask(ctx context.Context, rawURL string) (backend string, ttl time.Duration, err error) {
	b, named, err := lockport.DefaultMux().OpenBackend(rawURL)
	if err != nil {
		return "", 0, err
	}
	backend = b.Capabilities().Backend
	_ = b.Close()
	if backend == "memory" {
		return "", 0, errors.New("its locks are within one process, and what is measured is several: leave it out")
	}
	if named > 0 {
		return backend, named, grants(ctx, rawURL, named)
	}
	if err = grants(ctx, rawURL, ownTTL); !errors.Is(err, lockport.ErrRefused) {
		return backend, ownTTL, err
	}
	// It may be below the server's smallest; or the server refuses for another reason, which is not to be tried often: passwords are locked by that.
	if err = grants(ctx, rawURL, lockport.DefaultTTL); err != nil {
		return backend, 0, err
	}
	for _, ttl := range []time.Duration{2 * ownTTL, 4 * ownTTL} {
		if grants(ctx, rawURL, ttl) == nil {
			return backend, ttl, nil
		}
	}
	return backend, lockport.DefaultTTL, nil
}

// grants is nil if the servers grant and release a lock with that TTL.
func grants(ctx context.Context, rawURL string, ttl time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	l, err := measure.Open(ctx, measure.Config{URL: rawURL, TTL: ttl}, lockport.Label("compare"))
	if err != nil {
		return err
	}
	defer l.Close()
	release, err := l.Acquire(ctx, "lockport-compare-"+rand.Text()[:8], true)
	if err != nil {
		return err
	}
	return release(ctx)
}

// plainParams are parameters of URLs that are no secrets, and say how locks were measured.
var plainParams = strings.Fields("ttl prefix addr replicas wait_timeout node_timeout master_name db blockers exact table tokens tls schema sslmode tick_time " +
	"target_session_attrs")

// redacted is a URL as it is shown: without its password, and without the values of parameters that might be secrets, which are all but [plainParams]. A
// user without a password is not shown either: it may be a token.
func redacted(rawURL string) string {
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return "a URL that cannot be parsed"
	case strings.Contains(u.Opaque+u.EscapedPath()+u.RawQuery+u.Fragment, "@"): // what looks like a host may be the beginning of a password
		return u.Scheme + "://xxxxx"
	}
	shown := u.Scheme + "://"
	if u.User != nil {
		if _, has := u.User.Password(); has && u.User.Username() != "" {
			shown += url.User(u.User.Username()).String() + ":"
		}
		shown += "xxxxx@"
	}
	shown += u.Host + u.Opaque + u.EscapedPath()
	q := u.Query() // what cannot be parsed is not shown
	for name := range q {
		if !slices.Contains(plainParams, name) {
			q.Set(name, "xxxxx")
		}
	}
	if len(q) > 0 {
		text, _ := url.QueryUnescape(q.Encode())
		shown += "?" + text
	}
	return shown
}
