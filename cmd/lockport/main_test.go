//go:build linux || darwin

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"github.com/lockport/lockport/conformance"
)

// program waits for the build of the command under test, and returns its file, in the folder of LOCKPORT_URL.
var program func() string

func TestMain(m *testing.M) {
	conformance.WorkerMain(openTarget) // the crowds of a soak
	if len(os.Args) > 1 {
		if _, hidden := hiddenVerbs[os.Args[1]]; hidden { // tests of supervise start this binary again
			os.Exit(run(context.Background(), newConsole(), os.Args[1:]))
		}
	}
	// Shells and nohup(1) start programs with signals ignored. Signals that are caught have their defaults in the programs that the tests start.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lockport-cmd-")
	// This binary is started again many times, and a race detector would sleep for a second at the end of each.
	err = errors.Join(err, os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")), os.Setenv("LOCKPORT_URL", "file://"+dir))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	program = build(dir)                                // servers start meanwhile
	defer func() { program(); _ = os.RemoveAll(dir) }() // after a build there has ended
	// Most tests wait for processes, so by default more of them run at once than there are processors.
	flag.Parse()
	if parallel := flag.Lookup("test.parallel").Value; parallel.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = parallel.Set("10")
	}
	return m.Run()
}

// build starts go build before tests change the working folder or the environment.
func build(dir string) func() string {
	file := filepath.Join(dir, "lockport")
	build := exec.Command("go", "build", "-buildvcs=false", "-ldflags=-s -w", "-o", file, ".")
	build.Stderr = os.Stderr
	err := build.Start()
	return sync.OnceValue(func() string {
		if err := errors.Join(err, build.Wait()); err != nil {
			panic(fmt.Sprint("go build: ", err))
		}
		return file
	})
}
