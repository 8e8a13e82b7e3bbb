package crew

import (
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
)

// Of mutexes one of so many waits is noted, and of other waits those of about so many nanoseconds: what is noted slows down what is measured.
const (
	mutexShare = 20
	blockTime  = 10_000
)

// profiles are those of a worker, from its beginning to its end.
type profiles struct {
	beginning string
	cpu       *os.File
}

// profile begins them. Each file is named by the beginning, the process, and what it shows.
func profile(beginning string) (*profiles, error) {
	p := &profiles{beginning: fmt.Sprint(beginning, "-", os.Getpid())}
	var err error
	if p.cpu, err = os.Create(p.file("cpu")); err != nil {
		return nil, err
	}
	runtime.SetMutexProfileFraction(mutexShare)
	runtime.SetBlockProfileRate(blockTime)
	return p, pprof.StartCPUProfile(p.cpu)
}

func (p *profiles) file(what string) string { return p.beginning + "." + what + ".pprof" }

// write ends and writes them. They are for the eyes of a person, who misses what could not be written.
func (p *profiles) write() {
	if p == nil {
		return
	}
	pprof.StopCPUProfile()
	_ = p.cpu.Close()
	for _, what := range []string{"allocs", "mutex", "block"} {
		if f, err := os.Create(p.file(what)); err == nil {
			_ = pprof.Lookup(what).WriteTo(f, 0)
			_ = f.Close()
		}
	}
}
