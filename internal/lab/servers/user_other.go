//go:build !unix

package servers

import (
	"os"
	"sync"
	"syscall"
)

// asNobody and own do nothing: this system has no root.
func asNobody() *syscall.SysProcAttr { return nil }

func own(string) error { return nil }

// processFolder returns a folder that remains when this process ends.
var processFolder = sync.OnceValues(func() (string, error) { return os.MkdirTemp(os.Getenv(dataVariable), "lockport-servers-") })

func childrenOf(int) []*os.Process { return nil }
