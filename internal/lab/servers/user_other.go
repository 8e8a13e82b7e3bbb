//go:build !unix

package servers

import (
	"os"
	"sync"
	"syscall"
)

// lesser is the user as whom servers run if this process is root's. There is no root here.
type lesser struct{}

func lesserUser() (*lesser, error) { return nil, nil }

func (*lesser) attributes() *syscall.SysProcAttr { return nil }

func (*lesser) own(string) error { return nil }

// lastingFolder is a folder that is left behind when this process ends.
var lastingFolder = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "lockport-shared-") })

func childrenOf(int) []*os.Process { return nil }
