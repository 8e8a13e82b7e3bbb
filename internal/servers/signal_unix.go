//go:build unix

package servers

import (
	"os"
	"syscall"
)

func freeze(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func thaw(p *os.Process) error { return p.Signal(syscall.SIGCONT) }
