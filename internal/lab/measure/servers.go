package measure

import (
	"context"
	"errors"
	"os"
	"strings"
)

// Servers are the servers to measure. The caller must Close them.
type Servers struct {
	URL   string
	Close func() error
}

// Start returns a function that starts n servers or clusters of one kind, and returns when they serve. Several Redis form a Redlock. If a program
// is not installed, the error is a *servers.NotInstalled.
func Start[S interface {
	URL() string
	Close() error
}, O any](n int, start func(context.Context, O) (S, error), o O) func(context.Context) (*Servers, error) {
	return func(ctx context.Context) (*Servers, error) {
		var hosts []string
		all := &Servers{Close: func() error { return nil }}
		for range n {
			s, err := start(ctx, o)
			if err != nil {
				return nil, errors.Join(err, all.Close())
			}
			others := all.Close
			all.URL, all.Close = s.URL(), func() error { return errors.Join(s.Close(), others()) }
			hosts = append(hosts, strings.TrimSuffix(strings.TrimPrefix(all.URL, "redis://"), "/0"))
		}
		if n > 1 {
			all.URL = "redlock://" + strings.Join(hosts, ",")
		}
		return all, nil
	}
}

// StartFolder makes a folder for locks that are files. Close removes it.
func StartFolder(context.Context) (*Servers, error) {
	folder, err := os.MkdirTemp("", "lockport-measured-")
	return &Servers{"file://" + folder, func() error { return os.RemoveAll(folder) }}, err
}
