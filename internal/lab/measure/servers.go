package measure

import (
	"context"
	"os"

	"github.com/lockport/lockport/internal/lab/servers"
)

// Servers are the servers to measure. The caller must Close them.
type Servers struct {
	URL   string
	Close func() error
}

// Start returns a function that starts servers with o. If a program is not installed, the error is a *servers.NotInstalled.
func Start[S interface {
	URL() string
	Close() error
}, O any](start func(context.Context, O) (S, error), o O) func(context.Context) (*Servers, error) {
	return func(ctx context.Context) (*Servers, error) {
		s, err := start(ctx, o)
		if err != nil {
			return nil, err
		}
		return &Servers{s.URL(), s.Close}, nil
	}
}

// StartFolder makes a folder for locks that are files. Close removes it.
func StartFolder(context.Context) (*Servers, error) {
	folder, err := servers.Folder("measured")
	return &Servers{"file://" + folder, func() error { return os.RemoveAll(folder) }}, err
}
