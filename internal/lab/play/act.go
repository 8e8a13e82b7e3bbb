package play

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/internal/lab/history"
	process "github.com/lockport/lockport/internal/lab/worker"
)

// Act is a script, a fault injection, or a part of one.
type Act func(s *Phase)

// failure is an error that ends an act.
type failure struct{ error }

// Check ends the act on an error, as a failed requirement ends a test.
func Check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// Must returns v, or ends the act on an error.
func Must[T any](v T, err error) T {
	Check(err)
	return v
}

// attempt runs the act, and returns the error that ended it.
func (a Act) attempt(s *Phase) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	a(s)
	return nil
}

// InOrder runs acts one after another.
func InOrder(acts ...Act) Act {
	return func(s *Phase) {
		for _, a := range acts {
			a(s)
		}
	}
}

// Wait waits for d.
func (s *Phase) Wait(d time.Duration) { Check(process.Sleep(s.Ctx, d)) }

// Pause waits for between least and most TTLs.
func (s *Phase) Pause(least, most float64) { s.Wait(s.BetweenTTLs(least, most)) }

// Until waits until is returns true, and reports whether it did within most.
func (s *Phase) Until(most time.Duration, is func() bool) bool {
	for end := time.Now().Add(most); !is(); s.Wait(time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

// Both asks two workers whether they believe they hold the lock, which older had before newer. Then newer updates the register, and older after it.
func (s *Phase) Both(older, newer *Hold) {
	a, b := older.Valid(), newer.Valid()
	s.Note("%s believes it holds the lock: %t; %s: %t", older.Worker.Name, a, newer.Worker.Name, b)
	newer.Update()
	older.Update()
	s.Wait(s.Cell.Belief)
}

// Task is what a worker does while the act goes on. The caller reads Hold, Tries and Err only after Over is closed, when the task has ended.
type Task struct {
	Over  chan struct{}
	Hold  *Hold // the acquired hold
	Tries int
	Err   error

	stop context.CancelFunc
}

func (s *Phase) begin(do func(ctx context.Context, t *Task)) *Task {
	ctx, stop := context.WithCancel(s.Ctx)
	t := &Task{Over: make(chan struct{}), stop: stop}
	go func() {
		defer close(t.Over)
		t.Err = Act(func(*Phase) { do(ctx, t) }).attempt(s)
	}()
	return t
}

// Asks has a worker wait for the lock, and returns once it has called Acquire.
func (s *Phase) Asks(w *Worker) *Task {
	from := len(s.Events())
	t := s.begin(func(_ context.Context, t *Task) { t.Hold = Must(w.Acquire(s.Name, MaxWait)) })
	w.Await(from, func(e history.Event) bool { return e.Kind == history.Asked })
	return t
}

// Tries has a worker try to get the lock at intervals, until it succeeds or is stopped.
func (s *Phase) Tries(w *Worker, every time.Duration) *Task {
	return s.begin(func(ctx context.Context, t *Task) {
		for ctx.Err() == nil {
			t.Tries++
			h, err := w.TryAcquire(s.Name, time.Second)
			if t.Hold = h; err == nil {
				return
			}
			if process.Sleep(ctx, every) != nil {
				Check(err)
			}
		}
	})
}

// Releases has a worker release its lock.
func (s *Phase) Releases(h *Hold) *Task {
	return s.begin(func(context.Context, *Task) { h.Release() })
}

// Ended says that the task is over.
func (t *Task) Ended() bool { return Closed(t.Over) }

// Closed says that c is closed.
func Closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Stop stops the task, and returns the acquired hold, if any. A refused lock is no error.
func (t *Task) Stop() *Hold {
	t.stop()
	<-t.Over
	if !errors.As(t.Err, new(*AcquireError)) {
		Check(t.Err)
	}
	return t.Hold
}

// Got waits for the task's hold.
func (t *Task) Got() *Hold {
	<-t.Over
	return Must(t.Hold, t.Err)
}
