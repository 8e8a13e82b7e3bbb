package servers

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"time"
)

// Files in the working directory of a program with a private clock.
const (
	clockLibrary = "clock.so"
	clockFile    = "clock"
)

//go:embed preload/clock.c
var clockSource []byte

// ClockInstalled returns nil if servers can have private clocks here. Otherwise the error matches *NotInstalled or [errors.ErrUnsupported].
func ClockInstalled() error {
	_, err := buildClock()
	return err
}

// buildClock returns the path of the library that shifts a process's clock, built on first use.
var buildClock = sync.OnceValues(func() (library string, err error) {
	if runtime.GOOS != "linux" {
		return "", fmt.Errorf("servers: a private clock needs Linux: %w", errors.ErrUnsupported)
	}
	gcc, err1 := find("gcc")
	dir, err2 := processFolder()
	if err := errors.Join(err1, err2); err != nil {
		return "", err
	}
	library = filepath.Join(dir, clockLibrary)
	cmd := exec.Command(gcc, "-O2", "-shared", "-fPIC", "-o", library, "-x", "c", "-")
	cmd.Stdin = bytes.NewReader(clockSource)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("servers: gcc: %w: %s", err, out)
	}
	return library, os.Chmod(library, 0o755)
})

// clockEnv makes a program use the files that writeClock wrote into its working directory.
var clockEnv = []string{"LD_PRELOAD=./" + clockLibrary, "LOCKPORT_CLOCK=" + clockFile}

// writeClock gives the program that will run in dir a private clock without an offset. A clock that exists keeps its offset.
func writeClock(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, clockFile)); err == nil {
		return nil
	}
	library, err := buildClock()
	if err != nil {
		return err
	}
	return errors.Join(os.Symlink(library, filepath.Join(dir, clockLibrary)), os.WriteFile(filepath.Join(dir, clockFile), make([]byte, 8), 0o600))
}

// JumpClock moves the wall clock of a server with the option Clock by d, which may be negative. Jumps add up and survive restarts. Keys expire by
// the new time at the next command. The server's own timers mostly use a monotonic clock, which does not jump.
func (s *Server) JumpClock(d time.Duration) error {
	return s.control(func() error {
		mapped, err := os.OpenFile(filepath.Join(s.dir, clockFile), os.O_RDWR, 0) // no O_TRUNC: the program has mapped the file
		if err != nil {
			return err
		}
		var ahead int64
		err1 := binary.Read(mapped, binary.NativeEndian, &ahead)
		_, err2 := mapped.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(ahead+int64(d))), 0)
		return errors.Join(err1, err2, mapped.Close())
	})
}
