package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
)

// scene is a phase as scripts and injections see it.
type scene struct {
	*play.Phase
	ctx context.Context
	ttl time.Duration
}

// act is a script, an injection, or a part of one. Its first error ends the whole: see check.
type act func(s *scene)

// failure is an error that ends an act.
type failure struct{ error }

// check ends the act if there is an error, as a failed requirement ends a test.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// must is v, unless there is an error.
func must[T any](v T, err error) T {
	check(err)
	return v
}

// run plays the act.
func (a act) run(ctx context.Context, p *play.Phase) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = r.error
		default:
			panic(r)
		}
	}()
	a(&scene{Phase: p, ctx: ctx, ttl: p.Environment.TTL})
	return nil
}

// inOrder plays acts one after the other.
func inOrder(acts ...act) act {
	return func(s *scene) {
		for _, a := range acts {
			a(s)
		}
	}
}

// in are the servers of a scene.
func in[S any](s *scene) S { return s.Environment.Servers.(S) }

// at is an act that calls a method of the servers.
func at[S any](method func(S, context.Context) error) act {
	return func(s *scene) { check(method(in[S](s), s.ctx)) }
}

// named is an act that calls a method of the servers with the name of the scene's lock.
func named[S any](method func(S, context.Context, string) error) act {
	return func(s *scene) { check(method(in[S](s), s.ctx, s.Name())) }
}

// remove takes the lock away from its holder, as an operator does.
var remove = named(environment.Servers.Remove)

func (s *scene) wait(d time.Duration) { check(s.Sleep(s.ctx, d)) }

// pause waits for between least and most TTLs.
func (s *scene) pause(least, most float64) { s.wait(s.BetweenTTLs(least, most)) }

func (s *scene) worker() *play.Worker { return must(s.Worker(s.ctx)) }

func (s *scene) two() (older, newer *play.Worker) { return s.worker(), s.worker() }

func (s *scene) holder() *play.Worker { return must(s.Holder(s.ctx)) }

// acquire has a worker acquire the scene's lock within so many TTLs.
func (s *scene) acquire(w *play.Worker, ttls int) *play.Hold {
	return must(w.Acquire(s.ctx, s.Name(), time.Duration(ttls)*s.ttl))
}

func (s *scene) release(h *play.Hold) { check(h.Release(s.ctx)) }

// both asks two workers whether they believe to hold the lock, and has them update the register.
func (s *scene) both(older, newer *play.Hold) { check(s.Both(s.ctx, older, newer)) }

// eventually tries until there is no error.
func (s *scene) eventually(try func(ctx context.Context) error) {
	check(environment.Eventually(s.ctx, try))
}

// disbelieved waits until a worker knows that its hold has ended.
func (s *scene) disbelieved(h *play.Hold) {
	s.eventually(func(ctx context.Context) error {
		valid, err := h.Valid(ctx)
		if valid {
			err = fmt.Errorf("%s still believes to hold %s", h.Worker.Name, h.Name)
		}
		return err
	})
}

func (s *scene) injected() { s.Injected() }
func (s *scene) healed()   { s.Healed() }
