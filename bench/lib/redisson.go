package lib

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/lockport/lockport/internal/lab/measure"
)

// redissonJar is the environment variable with the path of redisson-all.jar.
const redissonJar = "LOCKPORT_REDISSON_JAR"

//go:embed Beside.java
var besideJava []byte

// redisson returns Redisson's readers and permits. A Java program measures them, since a process in between would add its own time.
func redisson() (all []Library) {
	for _, as := range []string{"readers", "permits"} {
		l := Library{
			Family: "redis", Name: "Redisson, " + as, Kind: Theirs, Renewal: automatic, Waits: true, Beside: true, Only: []string{"beside-"},
			How: either(as == "readers", "lock and unlock of a read lock", "acquire and release of an expirable permit, of 64") + ", in Java, after three seconds of warm-up",
		}
		if jar := os.Getenv(redissonJar); jar != "" {
			l.How += ", by " + filepath.Base(jar)
		} else {
			l.NotRun = "needs Java, and " + redissonJar + " with the path of Maven's org.redisson:redisson-all"
		}
		l.Turn = func(ctx context.Context, s measure.Scenario, on *measure.Subject, _ int) ([]measure.Figure, error) {
			return besideInJava(ctx, as, s, on)
		}
		all = append(all, l)
	}
	return all
}

func besideInJava(ctx context.Context, as string, s measure.Scenario, on *measure.Subject) (figures []measure.Figure, err error) {
	folder, err := os.MkdirTemp("", "lockport-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	source := filepath.Join(folder, "Beside.java")
	if err := os.WriteFile(source, besideJava, 0o600); err != nil {
		return nil, err
	}
	out, err := exec.CommandContext(ctx, "java", "-cp", os.Getenv(redissonJar), source, on.Config.URL, on.Locks, as, fmt.Sprint(s.N), fmt.Sprint(s.For.Milliseconds())).Output()
	if err != nil {
		return nil, fmt.Errorf("java: %w", err)
	}
	var p50, p99, perSecond float64
	if _, err := fmt.Sscan(string(out), &p50, &p99, &perSecond); err != nil {
		return nil, fmt.Errorf("java printed %q: %w", out, err)
	}
	return []measure.Figure{measure.Less("p50", "µs", p50), measure.Less("p99", "µs", p99), measure.More("cycles", "/s", perSecond)}, nil
}
