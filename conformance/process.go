package conformance

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// process is a worker as the case that started it sees it.
type process struct {
	e     *Env
	cmd   *exec.Cmd
	stdin io.WriteCloser

	member int // its number in a race

	mu      sync.Mutex
	id      int
	waiting map[int]chan answer
	over    chan struct{} // closed when it has ended and been waited for
	stderr  strings.Builder
}

// startTime is how long a worker may take to be ready.
const startTime = 20 * time.Second

// process starts a worker. It is killed when the case has ended.
func (e *Env) process() *process {
	self, err := os.Executable()
	e.check(err, "os.Executable")
	first := make(chan answer, 1)
	p := &process{e: e, waiting: map[int]chan answer{0: first}, over: make(chan struct{})}
	p.cmd = exec.Command(self)
	p.cmd.Env = append(os.Environ(), workerVariable+"=1", targetVariable+"="+e.cfg.Target, ttlVariable+"="+e.ttl.String(),
		"GORACE="+os.Getenv("GORACE")+" halt_on_error=1") // a data race ends it, which is seen
	p.cmd.Stderr = &p.stderr
	p.stdin, err = p.cmd.StdinPipe()
	e.check(err, "worker")
	stdout, err := p.cmd.StdoutPipe()
	e.check(err, "worker")
	e.check(startChild(p.cmd), "a worker process cannot be started")
	e.after(p.kill)

	go p.listen(stdout)
	ready, err := p.await(first, startTime)
	e.check(err, "a worker process did not begin")
	if ready.Err != "" {
		e.failf("a worker process cannot open the backend: %s", ready.Err)
	}
	return p
}

// listen passes answers on until the worker ends.
func (p *process) listen(stdout io.Reader) {
	defer close(p.over)
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		var a answer
		if json.Unmarshal(lines.Bytes(), &a) != nil {
			continue // something in the program printed
		}
		p.mu.Lock()
		reply := p.waiting[a.ID]
		delete(p.waiting, a.ID)
		p.mu.Unlock()
		if reply != nil {
			reply <- a
		}
	}
	_ = p.cmd.Wait()
}

// begin sends an order. The channel gives its answer.
func (p *process) begin(o order) <-chan answer {
	p.mu.Lock()
	p.id++
	o.ID = p.id
	reply := make(chan answer, 1)
	p.waiting[o.ID] = reply
	p.mu.Unlock()
	line, err := json.Marshal(o)
	if err == nil {
		_, err = p.stdin.Write(append(line, '\n'))
	}
	p.e.check(err, "a worker does not listen")
	return reply
}

var errWorkerDied = errors.New("the worker process ended")

// await waits for an answer.
func (p *process) await(reply <-chan answer, limit time.Duration) (answer, error) {
	ctx, cancel := context.WithTimeout(p.e.ctx, limit)
	defer cancel()
	select {
	case a := <-reply:
		return a, nil
	case <-p.over:
		return answer{}, fmt.Errorf("%w: %s", errWorkerDied, p.stderr.String())
	case <-ctx.Done():
		return answer{}, fmt.Errorf("the worker process did not answer within %v", limit)
	}
}

// do sends an order and waits for an answer without an error.
func (p *process) do(o order, limit time.Duration) answer {
	a, err := p.await(p.begin(o), limit)
	p.e.check(err, "%s in another process", o.Op)
	if a.Err != "" && o.Op != opValid {
		p.e.failf("%s in another process: %s", o.Op, a.Err)
	}
	return a
}

// kill ends the worker as kill -9 does, and returns when it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.stdin.Close()
	<-p.over
}

// stop stops the worker in the middle of whatever it does, as a long pause of its machine would.
func (p *process) stop() {
	if stopSignal == nil {
		p.e.notRun("this system cannot stop a process")
	}
	p.e.check(p.cmd.Process.Signal(stopSignal), "stopping a worker")
}

// resume lets a stopped worker go on.
func (p *process) resume() { p.e.check(p.cmd.Process.Signal(resumeSignal), "resuming a worker") }
