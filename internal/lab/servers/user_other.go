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

// processFolder returns a folder that remains when this process ends.
var processFolder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "lockport-servers-") })

func childrenOf(int) []*os.Process { return nil }
