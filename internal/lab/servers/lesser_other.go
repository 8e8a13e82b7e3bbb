//go:build !unix

package servers

import (
	"os"
	"syscall"
)

// lesser is the user as whom a server runs that refuses to run as root. There is no root here.
type lesser struct{}

func lesserUser(...string) (*lesser, error) { return nil, nil }

func (*lesser) attributes() *syscall.SysProcAttr { return nil }

func (*lesser) own(string) error { return nil }

func childrenOf(int) []*os.Process { return nil }

func waitGone(*os.Process) {}
