package servers

import (
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
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, clockLibrary)
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		return nil, err
	}
	if out, err := exec.Command(gcc, "-O2", "-shared", "-fPIC", "-o", library, source).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("servers: gcc: %w: %s", err, out)
	}
	return os.ReadFile(library)
})

// clockEnv is the environment of a program whose folder has what writeClock writes.
func clockEnv() []string {
	return append(os.Environ(), "LD_PRELOAD=./"+clockLibrary, "LOCKPORT_CLOCK="+clockFile)
}

// writeClock gives the program that will run in dir a clock of its own, which is right.
func writeClock(dir string) error {
	library, err := buildClock()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, clockLibrary), library, 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, clockFile), make([]byte, 8), 0o600)
}

// clockMu makes a jump one step.
var clockMu sync.Mutex

// jumpClock sets the clock of the program that runs in dir forward by d, or back.
func jumpClock(dir string, d time.Duration) error {
	clockMu.Lock()
	defer clockMu.Unlock()
	file, err := os.OpenFile(filepath.Join(dir, clockFile), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	var ahead [8]byte
	if _, err := file.ReadAt(ahead[:], 0); err != nil {
		return err
	}
	binary.NativeEndian.PutUint64(ahead[:], binary.NativeEndian.Uint64(ahead[:])+uint64(d))
	_, err = file.WriteAt(ahead[:], 0) // in place: the program has mapped it
	return err
}
