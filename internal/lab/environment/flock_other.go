//go:build !(linux || darwin || freebsd)

package environment

import (
	"errors"
	"os"
)

func flock(*os.File) error { return errors.ErrUnsupported }
