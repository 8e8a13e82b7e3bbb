package file

import (
	"fmt"
	"path/filepath"

	"github.com/lockport/lockport"
)

// Options configures a Backend. Its zero value uses DefaultDir.
type Options struct {
	// Dir is the folder of the lock files, an absolute path. All who use the same folder contend for the same locks. It must exist, so that a typing
	// error does not make two sets of locks. Empty: DefaultDir, which is created if missing.
	Dir string
}

// New returns a client for the locks in o.Dir. It does no I/O: the first acquisition, or Client.Check, finds an unusable folder.
func New(o Options, opts ...lockport.Option) (*lockport.Client, error) {
	b, err := NewBackend(o)
	if err != nil {
		return nil, lockport.InvalidOption(capabilities.Backend, err)
	}
	return lockport.New(b, opts...)
}

// NewBackend returns a driver.Backend for the locks in o.Dir, for lockport.New.
func NewBackend(o Options) (*Backend, error) {
	b := &Backend{claims: make(map[string]*claim)}
	switch {
	case o.Dir == "":
		b.dir.path, b.dir.own = DefaultDir(), true
	case !filepath.IsAbs(o.Dir):
		return nil, fmt.Errorf("%w: the lock folder %q is not an absolute path", lockport.ErrInvalidOption, o.Dir)
	default:
		b.dir.path = filepath.Clean(o.Dir)
	}
	return b, nil
}
