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

// ClockInstalled returns nil if RedisOptions.Clock works here: on Linux with gcc installed. Otherwise the error matches *NotInstalled or
// [errors.ErrUnsupported].
func ClockInstalled() error {
	_, err := buildClock()
	return err
}

// buildClock returns the library that shifts a process's clock, built on first use.
var buildClock = sync.OnceValues(func() ([]byte, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("servers: a private clock needs Linux: %w", errors.ErrUnsupported)
	}
	gcc, err := find("gcc")
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "lockport-clock-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	library := filepath.Join(dir, clockLibrary)
	cmd := exec.Command(gcc, "-O2", "-shared", "-fPIC", "-o", library, "-x", "c", "-")
	cmd.Stdin = bytes.NewReader(clockSource)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("servers: gcc: %w: %s", err, out)
	}
	return os.ReadFile(library)
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
	return errors.Join(os.WriteFile(filepath.Join(dir, clockLibrary), library, 0o700), os.WriteFile(filepath.Join(dir, clockFile), make([]byte, 8), 0o600))
}

// clockMu makes a jump one step.
var clockMu sync.Mutex

// JumpClock moves the wall clock of a server with the option Clock by d, which may be negative. Jumps add up and survive restarts. Keys expire by
// the new time at the next command. The server's own timers mostly use a monotonic clock, which does not jump.
func (s *Server) JumpClock(d time.Duration) error {
	if !s.clock {
		return fmt.Errorf("servers: this %s has no private clock: set its option Clock", s.name)
	}
	clockMu.Lock()
	defer clockMu.Unlock()
	file := filepath.Join(s.dir, clockFile)
	ahead, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	binary.NativeEndian.PutUint64(ahead, binary.NativeEndian.Uint64(ahead)+uint64(d))
	mapped, err := os.OpenFile(file, os.O_WRONLY, 0) // no O_TRUNC: the program has mapped the file
	if err != nil {
		return err
	}
	_, err = mapped.Write(ahead)
	return errors.Join(err, mapped.Close())
}
