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

// What a program with a clock of its own finds in its folder, which is its working directory.
const (
	clockLibrary = "clock.so"
	clockFile    = "clock"
)

//go:embed preload/clock.c
var clockSource []byte

// ClockInstalled returns nil if RedisOptions.Clock can be had: on Linux, where gcc is installed. Else it is a *NotInstalled, or an
// error that matches [errors.ErrUnsupported].
func ClockInstalled() error {
	_, err := buildClock()
	return err
}

// buildClock returns the library that sets a process's clock, built when it is first needed.
var buildClock = sync.OnceValues(func() ([]byte, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("servers: a clock of its own is for Linux: %w", errors.ErrUnsupported)
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

// clockEnv is the environment of a program whose folder has what writeClock writes.
var clockEnv = []string{"LD_PRELOAD=./" + clockLibrary, "LOCKPORT_CLOCK=" + clockFile}

// writeClock gives the program that will run in dir a clock of its own, which is right. A clock that it has had stays as it was set.
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

// JumpClock sets the time of day of a server with the option Clock forward by d, or back by -d. Jumps add up, and outlive the server's process: expiries meet
// them at the next command, while a server's own timers mostly go by a clock that nobody sets.
func (s *Server) JumpClock(d time.Duration) error {
	if !s.clock {
		return fmt.Errorf("servers: this %s has no clock of its own", s.name)
	}
	clockMu.Lock()
	defer clockMu.Unlock()
	file := filepath.Join(s.dir, clockFile)
	ahead, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	binary.NativeEndian.PutUint64(ahead, binary.NativeEndian.Uint64(ahead)+uint64(d))
	mapped, err := os.OpenFile(file, os.O_WRONLY, 0) // the program has mapped it: it must never be shorter
	if err != nil {
		return err
	}
	_, err = mapped.Write(ahead)
	return errors.Join(err, mapped.Close())
}
