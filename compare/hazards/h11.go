package hazards

import (
	"context"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

const (
	// waiting is how many processes wait, and waitingFor how long they are watched.
	waiting, waitingFor = 3, 3 * time.Second
	// waitersTTL is what a service may have: those who have a session, or a lease, send something several times in it.
	waitersTTL = 10 * time.Second
	// manyRequests is how many requests a second of each process that waits make work of waiting.
	manyRequests = 10
)

// h11 is those who wait for a lock.
var h11 = []scenario{
	spinning("article", "", "redis", "asks-every-five-milliseconds", "one Redis"),
	func() scenario {
		s := spinning("article", "every millisecond", "redis", "asks-every-millisecond", "one Redis")
		s.full = true
		return s
	}(),
	{hazard: "H11", subject: "file", notRun: "There is no server that could have too much to do: who waits looks at a file of its own machine, every 10 to 30 ms."},
	spinning("redis", "", "redis", "", "one Redis"),
	spinning("redlock", "", "redlock", "", "five Redis"),
	spinning("etcd", "", "etcd", "", "three etcds"),
	spinning("zookeeper", "", "zookeeper", "", "three ZooKeepers"),
	spinning("postgres", "", "postgres", "", "one PostgreSQL"),
	spinning("mysql", "", "mysql", "", "one MariaDB"),
}

func spinning(subject, variant, world, lock, servers string) scenario {
	return scenario{
		hazard: "H11", subject: subject, variant: variant, world: world, lock: lock,
		setup:  servers + "; A holds the lock, and three other processes wait for it, whose requests are counted for 3 s",
		script: waitersCounted,
	}
}

// waitersCounted counts the requests of processes that wait for a lock.
func waitersCounted(ctx context.Context, p *trial) error {
	if p.Environment.Backend != "zookeeper" { // whose servers allow no longer one
		p.patient(waitersTTL)
	}
	w, err := p.workers(ctx, 1+waiting)
	if err != nil {
		return err
	}
	if err := p.warmUp(ctx, w...); err != nil {
		return err
	}
	a, err := w[0].Acquire(ctx, p.Name(), lasting)
	if err != nil {
		return err
	}
	got := make(chan error, waiting)
	for _, waiter := range w[1:] {
		go func() {
			h, err := waiter.Acquire(ctx, p.Name(), lasting)
			if err == nil {
				err = h.Release(ctx)
			}
			got <- err
		}()
	}
	if err := p.Sleep(ctx, time.Second/2); err != nil { // until all have begun to wait
		return err
	}
	p.Note("the requests of those who wait are counted from here on")
	begun, before := history.Now(), requests(w[1:])
	if err := p.Sleep(ctx, waitingFor); err != nil {
		return err
	}
	count, took := requests(w[1:])-before, history.Now().Sub(begun)
	p.Note("they have been counted, and A releases")
	if err := a.Release(ctx); err != nil {
		return err
	}
	for range waiting {
		if err := <-got; err != nil {
			return err
		}
	}
	each := float64(count) / took.Seconds() / waiting
	class := report.Safe
	if each > manyRequests {
		class = report.Costly
	}
	p.found(class, "Each of the three processes that waited sent %.1f requests a second (%d in %s by all of them).", each, count, text(took))
	return nil
}

// requests are how many the workers have sent.
func requests(w []*play.Worker) (sum int64) {
	for _, worker := range w {
		for _, l := range worker.Endpoint.Links {
			sum += l.Requests()
		}
	}
	return sum
}
