package main

import (
	"context"
	"net/url"
	"os"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

// go-redis writes what it retries to standard error; errors say it in one line. Workers of the suite must be quiet too.
func init() { logging.Disable() }

// defaultURL needs no server: files in a folder that follows from the user id alone.
const defaultURL = "file:"

// openLimit bounds the first contact with the server, and the single attempt of run -n.
const openLimit = 10 * time.Second

// lockURL is the URL of --url, or of LOCKPORT_URL, or the default.
func lockURL(flag string) string {
	if flag == "" {
		flag = os.Getenv("LOCKPORT_URL")
	}
	if flag == "" {
		flag = defaultURL
	}
	return flag
}

// urlValue is the value of --url. It is not empty: what should be a server must not become this machine's own files where a variable is not set, and
// two machines do the same work at once.
func urlValue(to *string) func(string) error {
	return func(s string) error {
		if s == "" {
			return usagef("the URL is empty: want that of a lock server, or %s for files of this machine", defaultURL)
		}
		*to = s
		return nil
	}
}

// urlTTL is the TTL that rawURL asks for, 0 if it asks for none or cannot be read: opening it will say so.
func urlTTL(rawURL string) time.Duration {
	u, err := url.Parse(rawURL)
	if err != nil {
		return 0
	}
	d, err := time.ParseDuration(u.Query().Get("ttl"))
	if err != nil || d < 0 {
		return 0
	}
	return d
}

// openTarget opens the backend of a URL, for the conformance suite.
func openTarget(_ context.Context, target string) (driver.Backend, error) {
	b, _, err := lockport.DefaultMux().OpenBackend(target)
	return b, err
}
