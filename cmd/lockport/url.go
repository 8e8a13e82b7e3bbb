package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
)

// go-redis logs retries to standard error; the returned error is enough. Workers of the suite must be quiet too.
func init() { logging.Disable() }

// defaultURL needs no server: its files are in a folder derived from the user id.
const defaultURL = "file:"

// answerLimit bounds each request of a verb to a server: the first contact, an inspection, a break, and the whole of doctor's check. Once run has
// opened the server, it does not apply to run's other requests.
const answerLimit = 10 * time.Second

// shortestWait is how long run -n, and run -w with a shorter wait, await the opening of the server and the answer to one attempt. It suffices for a
// distant server.
const shortestWait = 3 * time.Second

// server is the lock server named by the command line or the environment.
type server struct{ given, files []string } // --url, --url-file

// server adds the options that name a lock server.
func (o options) server() *server {
	s := new(server)
	o.StringArrayVar(&s.given, "url", nil, "")
	o.StringArrayVar(&s.files, "url-file", nil, "")
	return s
}

// url returns the URL to use: from the options, else from the environment, else defaultURL.
func (s *server) url() (string, error) {
	given, err := s.urls()
	file, hasFile := os.LookupEnv("LOCKPORT_URL_FILE")
	url, hasURL := os.LookupEnv("LOCKPORT_URL")
	switch {
	case err != nil:
		return "", err
	case len(given) > 0:
		return given[len(given)-1], nil
	case file == "" && url == "" && (hasFile || hasURL): // as LOCKPORT_URL=$REDIS_URL without the latter: machines would not exclude each other
		return "", usagef("LOCKPORT_URL or LOCKPORT_URL_FILE is empty: unset it for files of this machine")
	case file != "" && url != "":
		return "", usagef("LOCKPORT_URL and LOCKPORT_URL_FILE exclude each other")
	case file != "":
		return readURL(file)
	}
	return cmp.Or(url, defaultURL), nil
}

// urls returns the URLs from the options. An empty one is an error. Otherwise an unset variable would select this machine's files, which two machines do
// not share.
func (s *server) urls() ([]string, error) {
	switch {
	case slices.Contains(s.given, ""):
		return nil, usagef("the URL is empty: give that of a lock server, or %s for files of this machine", defaultURL)
	case len(s.given) > 0 && len(s.files) > 0:
		return nil, usagef("options --url and --url-file exclude each other")
	}
	all := s.given
	for _, file := range s.files {
		url, err := readURL(file)
		if err != nil {
			return nil, err
		}
		all = append(all, url)
	}
	return all, nil
}

// readURL reads a URL from a file, which keeps its password out of the process list.
func readURL(file string) (string, error) {
	if strings.Contains(file, "://") || strings.Contains(file, "@") && strings.Contains(file, ":") {
		return "", usagef("--url-file and LOCKPORT_URL_FILE take the name of a file that holds the URL, not the URL")
	}
	f, err := os.Open(file)
	text, failed := io.ReadAll(io.LimitReader(f, 64<<10)) // /dev/zero has no end; without a file, Read fails
	_ = f.Close()
	if err = cmp.Or(err, failed); err != nil {
		return "", usagef("the URL cannot be read: %v", err)
	}
	url := strings.TrimSpace(string(text))
	if url == "" || strings.ContainsAny(url, "\r\n") {
		return "", usagef("the file %s must hold one line: the URL of a lock server", file)
	}
	return url, nil
}

func openServer(ctx context.Context, rawURL string, options ...lockport.Option) (*lockport.Client, error) {
	limited, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	client, err := lockport.Open(limited, rawURL, append(options, lockport.Logger(nil))...)
	if errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "TLS") { // otherwise the backend says it
		err = fmt.Errorf("%w (%s): is the address right, and do both sides use TLS?", err, lockurl.Address(rawURL))
	}
	return client, libraryError(err)
}

// urlTTL is the TTL in rawURL. It is 0 if there is none or it is invalid: opening the URL reports that.
func urlTTL(rawURL string) time.Duration {
	u, err := url.Parse(rawURL)
	if err != nil {
		return 0
	}
	d, _ := time.ParseDuration(u.Query().Get("ttl"))
	return max(d, 0)
}

// clientTTL is the TTL of clients that use rawURL without options.
func clientTTL(rawURL string, caps driver.Capabilities) time.Duration {
	return cmp.Or(urlTTL(rawURL), caps.FixedTTL, lockport.DefaultTTL)
}

// openTarget opens the backend of a URL, for the conformance suite.
func openTarget(_ context.Context, target string) (driver.Backend, error) {
	b, _, err := lockport.DefaultMux().OpenBackend(target)
	return b, err
}
