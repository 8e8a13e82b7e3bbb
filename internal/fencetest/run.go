package fencetest

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Run is a run: who takes part, and where.
type Run struct {
	Kind         string // one of those that Main was given
	Store, Locks string // what its functions are called with

	// LateTTL is that of the locks that are lost, if Lose is nil. Default: 150 ms.
	LateTTL time.Duration
	// Lose, if not nil, is called while the child is stopped and has the server take the child's locks, which have these names, away, say by ending
	// its sessions. Otherwise their TTL ends them.
	Lose func(ctx context.Context, names []string) error
}

// A run has rounds, many of them at once: each is a name on which a holder loses its lock without knowing, and writes late.
const (
	// holdTTL is that of locks which are not to be lost, on a busy machine either.
	holdTTL = 30 * time.Second

	rounds  = 200
	atOnce  = 50
	batches = rounds / atOnce
)

// result counts what happened in a run.
type result struct {
	refused int   // late writes
	lost    int64 // updates that were acknowledged and are not there
}

// Refuses shows that the fence holds: in 200 rounds each late write is refused, and no update is lost.
func Refuses(t *testing.T, r Run) {
	t.Helper()
	res := r.do(t)
	t.Logf("%d rounds: %d late writes refused, %d updates lost", rounds, res.refused, res.lost)
	if res.refused != rounds || res.lost != 0 {
		t.Errorf("%d of %d late writes were refused and %d updates lost: all must be refused, and none lost", res.refused, rounds, res.lost)
	}
}

// Loses shows that the run would find a fence that does not hold: r is the same kind of store without one.
func Loses(t *testing.T, r Run) {
	t.Helper()
	res := r.do(t)
	t.Logf("%d rounds without a fence: %d late writes refused, %d updates lost", rounds, res.refused, res.lost)
	if res.refused != 0 || res.lost < 1 {
		t.Errorf("without a fence %d late writes were refused and %d updates lost: the run shows nothing", res.refused, res.lost)
	}
}

func (r Run) do(t *testing.T) (res result) {
	t.Helper()
	job := task{Kind: r.Kind, Store: r.Store, Locks: r.Locks, TTL: holdTTL}
	for i := range atOnce {
		job.Names = append(job.Names, fmt.Sprintf("fencetest %s %d", rand.Text(), i))
	}
	kind, ok := known[r.Kind]
	if !ok {
		t.Fatalf("TestMain did not give fencetest.Main the kind %q", r.Kind)
	}
	here, err := open(kind, job)
	if err != nil {
		t.Fatal(err)
	}
	defer here.close()
	if r.Lose == nil {
		job.TTL = cmp.Or(r.LateTTL, 150*time.Millisecond)
	}
	c := startChild(t, job)
	defer c.end()

	written := 0
	for range batches {
		late, count := r.batch(t, here, c)
		res.refused += late.Refused
		written += late.Written + count
	}
	res.lost = int64(written)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, name := range job.Names {
		value, err := here.store.Value(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		res.lost -= value
	}
	if res.lost < 0 {
		t.Fatalf("%d updates are there that nobody made", -res.lost)
	}
	return res
}

// batch is a round on each of the names: what became of the child's late writes, and how many we wrote. A third of our own writes come before the
// child's, a third after them, and the rest at the same time.
func (r Run) batch(t *testing.T, here *party, c *process) (late answer, written int) {
	t.Helper()
	ours := func(a answer) {
		t.Helper()
		if len(a.Errors) > 0 || a.Refused > 0 {
			t.Fatalf("the holder of the lock: %d writes refused, and these errors: %v", a.Refused, a.Errors)
		}
	}
	write := func(third int) {
		t.Helper()
		a := here.write(func(i int) bool { return i%3 == third })
		ours(a)
		written += a.Written
	}

	c.order(orderTake)
	c.answer()
	c.check(stop(c.cmd.Process))
	if r.Lose != nil {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := r.Lose(ctx, here.names); err != nil {
			t.Fatal(err)
		}
	}
	ours(here.take()) // as soon as the child's locks have ended
	write(0)
	c.order(orderWrite)
	c.check(resume(c.cmd.Process))
	write(1)
	late = c.answer()
	write(2)
	here.release()
	return late, written
}

// process is the child, seen from the test.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	orders io.WriteCloser
	out    *bufio.Reader
	stderr strings.Builder
}

func startChild(t *testing.T, job task) *process {
	t.Helper()
	c := &process{t: t}
	program, err := os.Executable()
	c.check(err)
	text, err := json.Marshal(job)
	c.check(err)
	c.cmd = exec.Command(program)
	c.cmd.Env = append(os.Environ(), variable+"="+string(text))
	c.cmd.Stderr = &c.stderr
	c.orders, err = c.cmd.StdinPipe()
	c.check(err)
	out, err := c.cmd.StdoutPipe()
	c.check(err)
	c.out = bufio.NewReader(out)
	c.check(c.cmd.Start())
	return c
}

func (c *process) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *process) order(order string) {
	c.t.Helper()
	_, err := io.WriteString(c.orders, order+"\n")
	c.check(err)
}

func (c *process) answer() (a answer) {
	c.t.Helper()
	line, err := c.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &a)
	}
	if err != nil || len(a.Errors) > 0 {
		c.end()
		c.t.Fatalf("the child: %v, and these errors: %v\n%s", err, a.Errors, c.stderr.String())
	}
	return a
}

// end kills the child, which may be stopped.
func (c *process) end() {
	_ = c.cmd.Process.Kill() // an error: it has ended
	_ = c.cmd.Wait()         // an error: it was killed
}
