//go:build !unix

package servers

import (
	"os"
	"sync"
	"syscall"
)

// nobody is the user under which servers run when root runs this process. This system has no root.
type nobody struct{}

func serverUser() (*nobody, error) { return nil, nil }

func (*nobody) attributes() *syscall.SysProcAttr { return nil }

func (*nobody) own(string) error { return nil }

// lastingFolder returns a folder that remains when this process ends.
var lastingFolder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "lockport-shared-") })

func childrenOf(int) []*os.Process { return nil }
