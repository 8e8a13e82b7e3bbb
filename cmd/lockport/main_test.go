package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/lockport/lockport/conformance"
)

// binary is the command under test, built once.
var binary string

func TestMain(m *testing.M) {
	conformance.WorkerMain(openTarget) // the crowds of a soak
	if len(os.Args) > 1 {
		if stage, ok := hiddenStages[os.Args[1]]; ok { // tests of supervise start this binary again
			if err := stage(newConsole(), os.Args[2:]); err != nil {
				os.Exit(err.(*exitError).code)
			}
			os.Exit(0)
		}
	}
	// Shells and nohup(1) start what runs in the background with signals ignored, which programs inherit. Those that are caught instead have their
	// defaults in the programs that the tests start.
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
	os.Exit(testMain(m))
}

func testMain(m *testing.M) int {
	dir, err := os.MkdirTemp("", "lockport-cmd-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// This binary is started again thousands of times, and a race detector would sleep for a second at the end of each.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := os.Setenv("LOCKPORT_URL", "file://"+dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binary = filepath.Join(dir, "lockport")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "go build:", err)
		return 1
	}
	// Most tests wait for processes, so more of them run side by side than there are processors, unless told otherwise.
	flag.Parse()
	if parallel := flag.Lookup("test.parallel").Value; parallel.String() == strconv.Itoa(runtime.GOMAXPROCS(0)) {
		_ = parallel.Set("10")
	}
	return m.Run()
}
