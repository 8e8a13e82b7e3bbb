package leader_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/backend/memory"
	"github.com/lockport/lockport/backend/memory/memorytest"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
	"github.com/lockport/lockport/leader"
)

const (
	ttl    = 12 * time.Second
	margin = ttl/20 + 10*time.Millisecond
)

// bubble runs f in virtual time, with a lock server in memory.
func bubble(t *testing.T, f func(t *testing.T, s *memory.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, memory.NewServer()) })
}

// client is one machine's client of the server.
func client(t *testing.T, s *memory.Server, opts ...lockport.Option) (*lockport.Client, *memorytest.Backend) {
	b := memorytest.NewBackend(s, nil)
	c := peer.Client(t, b, append([]lockport.Option{lockport.TTL(ttl)}, opts...)...)
	t.Cleanup(b.Restore) // before the client's end
	return c, b
}

// campaign is a Run under way.
type campaign struct {
	cancel  context.CancelCauseFunc
	result  chan error
	changes chan leader.Change // that told has not seen
	seen    []leader.Change
}

func run(ctx context.Context, c lockport.Locker, fn leader.Func, opts ...leader.Option) *campaign {
	r := &campaign{result: make(chan error, 1), changes: make(chan leader.Change, 1000)}
	ctx, r.cancel = context.WithCancelCause(ctx)
	opts = append(opts, leader.Observe(func(c leader.Change) { r.changes <- c }))
	go func() { r.result <- leader.Run(ctx, c, "n", fn, opts...) }()
	synctest.Wait()
	return r
}

// told returns the changes so far.
func (r *campaign) told() []leader.Change {
	synctest.Wait()
	for len(r.changes) > 0 {
		r.seen = append(r.seen, <-r.changes)
	}
	return r.seen
}

// states returns the states that the Run has been in.
func (r *campaign) states() string {
	var all []string
	for _, c := range r.told() {
		all = append(all, c.State.String())
	}
	return strings.Join(all, " ")
}

// last returns the last change.
func (r *campaign) last() leader.Change {
	all := r.told()
	return all[len(all)-1]
}

// stop ends the Run, and returns its result.
func (r *campaign) stop(cause error) error {
	r.cancel(cause)
	return <-r.result
}

// untilEnded leads until its context ends.
func untilEnded(ctx context.Context, _ *lockport.Lock) error {
	<-ctx.Done()
	return ctx.Err()
}

func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// The lock is released only after fn has returned, however long that takes. The next leader's token is greater. The cause of its context's end is no
// failure of fn.
func TestStepsDownInOrder(t *testing.T) {
	bubble(t, func(t *testing.T, s *memory.Server) {
		one, _ := client(t, s)
		two, _ := client(t, s)
		old := run(t.Context(), one, func(ctx context.Context, _ *lockport.Lock) error {
			<-ctx.Done()
			time.Sleep(3 * ttl) // far longer than a hold lasts that is not renewed
			return nil
		})
		next := run(t.Context(), two, func(ctx context.Context, _ *lockport.Lock) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		old.cancel(nil)
		sleep(3*ttl - time.Millisecond)
		require.Equal(t, "campaigning leading stopping", old.states())
		require.Equal(t, "campaigning", next.states())
		sleep(time.Millisecond)
		require.Equal(t, "campaigning leading stopping idle", old.states())
		require.Equal(t, leader.Change{State: leader.Idle}, old.last(), "it ended in order, and nothing follows")
		require.Equal(t, "campaigning leading", next.states())
		first, _ := old.told()[2].Term.Token()
		second, _ := next.told()[1].Term.Token()
		require.Greater(t, second, first)
		require.ErrorIs(t, old.stop(nil), context.Canceled)
		require.ErrorIs(t, run(t.Context(), one, untilEnded).stop(nil), context.Canceled, "also while it waits for the lock")
		require.Equal(t, driver.ErrHeld, next.stop(driver.ErrHeld), "the cause")
		require.Equal(t, leader.Change{State: leader.Idle}, next.last())
	})
}

// What ends a term beside fn's return: how long fn's context ends before another process can lead, its cause, and what Idle reports.
func TestLoss(t *testing.T) {
	for name, tt := range map[string]struct {
		harm   func(s *memory.Server, b *memorytest.Backend)
		opts   []leader.Option
		cause  error
		idle   error         // beside cause: whether the release was confirmed, or came too late
		before time.Duration // at least this long before the other leads
	}{
		"silence":                {harm: func(_ *memory.Server, b *memorytest.Backend) { b.Pause() }, opts: []leader.Option{leader.Grace(0)}, cause: lockport.ErrSilence, idle: lockport.ErrLost, before: margin},
		"silence with Grace":     {harm: func(_ *memory.Server, b *memorytest.Backend) { b.Pause() }, opts: []leader.Option{leader.Grace(ttl / 2)}, cause: leader.ErrGrace, idle: lockport.ErrUnavailable, before: margin + ttl/2},
		"removal by an operator": {harm: func(s *memory.Server, _ *memorytest.Backend) { s.Lose("n", nil) }, cause: lockport.ErrLost, idle: lockport.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memory.Server) {
				one, b := client(t, s)
				two, _ := client(t, s)
				var ended, began time.Time
				var cause error
				r := run(t.Context(), one, func(ctx context.Context, term *lockport.Lock) error {
					err := untilEnded(ctx, term)
					if ended.IsZero() {
						ended, cause = time.Now(), context.Cause(ctx)
					}
					return err
				}, tt.opts...)
				sleep(ttl) // through some renewals
				require.Equal(t, "campaigning leading", r.states())
				next := run(t.Context(), two, func(ctx context.Context, term *lockport.Lock) error {
					began = time.Now()
					return untilEnded(ctx, term)
				})
				tt.harm(s, b)
				sleep(2 * ttl)
				require.Equal(t, "campaigning leading", next.states())
				require.GreaterOrEqual(t, began.Sub(ended), tt.before)
				require.ErrorIs(t, cause, tt.cause)
				require.True(t, strings.HasPrefix(r.states(), "campaigning leading stopping idle campaigning"), r.states())
				stopping, idle := r.told()[2], r.told()[3]
				require.Equal(t, cause, stopping.Err)
				require.ErrorIs(t, idle.Err, tt.cause)
				require.ErrorIs(t, idle.Err, tt.idle)
				require.NotRegexp(t, "\n|lost.*lost", idle.Err.Error(), "the end of fn's context is reported once")
				b.Restore()
				require.Error(t, next.stop(nil))
				sleep(ttl)
				require.Equal(t, leader.Leading, r.last().State, "it leads again")
			})
		})
	}
}

// Grace comes before the end of MaxHold too. The server is not to blame then.
func TestGraceBeforeMaxHold(t *testing.T) {
	bubble(t, func(t *testing.T, s *memory.Server) {
		c, _ := client(t, s, lockport.MaxHold(ttl/2))
		r := run(t.Context(), c, untilEnded, leader.Grace(ttl/4))
		require.Equal(t, leader.Leading, r.last().State, "at once: the claim is new")
		sleep(ttl / 4)
		require.Equal(t, leader.ErrGrace, r.last().Err)
		_ = r.stop(nil)

		noRoom := leader.Grace(ttl * 7 / 16)
		require.ErrorIs(t, run(t.Context(), c, untilEnded, noRoom).stop(nil), context.Canceled, "also while it waits for a renewal")
		r = run(t.Context(), c, untilEnded, noRoom)
		sleep(ttl*7/16 + 10*time.Millisecond)
		require.ErrorIs(t, r.last().Err, leader.ErrGrace, "it waits no longer than Grace")
	})
}

// Grace ends the context of a slow fn. The lock, which can be renewed again, is not released meanwhile.
func TestGraceThatIsNotKept(t *testing.T) {
	bubble(t, func(t *testing.T, s *memory.Server) {
		one, b := client(t, s)
		two, _ := client(t, s)
		r := run(t.Context(), one, func(ctx context.Context, _ *lockport.Lock) error {
			<-ctx.Done()
			b.Resume()
			time.Sleep(2 * ttl)
			return nil
		}, leader.Grace(ttl/3))
		next := run(t.Context(), two, untilEnded)
		b.Pause()
		sleep(ttl)
		require.Equal(t, "campaigning leading stopping", r.states())
		sleep(ttl)
		require.Equal(t, "campaigning", next.states())
		sleep(ttl)
		require.Equal(t, "campaigning leading", next.states())
		require.Equal(t, leader.ErrGrace, r.told()[3].Err)
	})
}

// Pauses double with each failure in a row, up to most. Each is cut by at most a half, at random.
func TestBackoff(t *testing.T) {
	const least, most = time.Second, 6 * time.Second
	failure, stopped := fmt.Errorf("another locker: %w", lockport.ErrClosed), errors.New("stopped")
	for name, tt := range map[string]struct {
		fn    leader.Func
		down  error // of every claim
		want  []time.Duration
		match error
	}{
		"nil":                 {fn: func(context.Context, *lockport.Lock) error { return nil }, want: []time.Duration{1, 1, 1, 1}},
		"failures":            {fn: func(context.Context, *lockport.Lock) error { return failure }, want: []time.Duration{1, 2, 4, 6, 6, 6}, match: failure},
		"the server is away":  {down: driver.ErrUnavailable, want: []time.Duration{1, 2, 4, 6, 6}, match: lockport.ErrUnavailable},
		"failures after long": {fn: func(context.Context, *lockport.Lock) error { time.Sleep(most); return failure }, want: []time.Duration{1, 1, 1}, match: failure},
	} {
		t.Run(name, func(t *testing.T) {
			seen := map[time.Duration]bool{}
			for range 8 {
				bubble(t, func(t *testing.T, s *memory.Server) {
					c, b := client(t, s)
					b.Fail(tt.down)
					r := run(t.Context(), c, tt.fn, leader.Backoff(least, most))
					sleep(40 * time.Second * tt.want[len(tt.want)-1]) // 40 failures or more
					require.Equal(t, stopped, r.stop(stopped), "also in a pause")
					var pauses []time.Duration
					for _, c := range r.told() {
						if c.State == leader.Idle {
							require.ErrorIs(t, c.Err, tt.match)
							require.NotContains(t, fmt.Sprint(c.Err), "%!")
							pauses = append(pauses, c.Pause)
						}
					}
					require.Greater(t, len(pauses), len(tt.want))
					for i, want := range tt.want {
						require.InDelta(t, want*time.Second*3/4, pauses[i], float64(want*time.Second/4), i)
						seen[pauses[i]] = true
					}
				})
			}
			require.Greater(t, len(seen), 8, "they are not random")
		})
	}
}

// Run and Watch return the errors that a retry does not fix.
func TestHopeless(t *testing.T) {
	never := func(context.Context, *lockport.Lock) error { panic("it leads") }
	for name, tt := range map[string]struct {
		name string
		down error // of every claim
		opts []leader.Option
		want error
	}{
		"name":         {name: "", want: lockport.ErrInvalidName},
		"refused":      {name: "n", down: driver.ErrRefused, want: lockport.ErrRefused},
		"unsupported":  {name: "n", down: errors.ErrUnsupported, want: errors.ErrUnsupported},
		"invalid":      {name: "n", down: driver.ErrInvalidOption, want: lockport.ErrInvalidOption},
		"long Grace":   {name: "n", opts: []leader.Option{leader.Grace(ttl/2 + 1)}, want: lockport.ErrInvalidOption},
		"Grace < 0":    {name: "n", opts: []leader.Option{leader.Grace(-1)}, want: lockport.ErrInvalidOption},
		"least 0":      {name: "n", opts: []leader.Option{leader.Backoff(0, 1)}, want: lockport.ErrInvalidOption},
		"most < least": {name: "n", opts: []leader.Option{nil, leader.Backoff(2, 1)}, want: lockport.ErrInvalidOption},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, s *memory.Server) {
				c, b := client(t, s)
				b.Fail(tt.down)
				require.ErrorIs(t, leader.Run(t.Context(), c, tt.name, never, tt.opts...), tt.want)
				var failed error
				for _, err := range leader.Watch(t.Context(), c, tt.name, time.Duration(1-len(tt.opts))) { // only a positive pause is valid
					require.NoError(t, failed, "it goes on")
					failed = err
				}
				require.ErrorIs(t, failed, tt.want)
			})
		})
	}
}

// Run does not return an error of fn, whatever it matches. A fn that panics leaves no lock. Closing the locker ends fn's context, and
// Run without a pause.
func TestErrorsOfFn(t *testing.T) {
	bubble(t, func(t *testing.T, s *memory.Server) {
		c, b := client(t, s)
		b.FailNext(memorytest.Release, driver.ErrUnavailable)
		var last leader.Change
		require.PanicsWithValue(t, "fn", func() {
			_ = leader.Run(t.Context(), c, "n", func(context.Context, *lockport.Lock) error { panic("fn") }, leader.Observe(func(ch leader.Change) { last = ch }))
		})
		require.Equal(t, []any{leader.Idle, false}, []any{last.State, strings.Contains(last.Err.Error(), "%!")})
		require.ErrorIs(t, last.Err, lockport.ErrUnavailable)
		calls := 0
		r := run(t.Context(), c, func(ctx context.Context, term *lockport.Lock) error {
			if calls++; calls < 3 {
				return errors.Join(lockport.ErrRefused, leader.Run(ctx, c, "inner", untilEnded, leader.Grace(math.MaxInt64)))
			}
			defer time.Sleep(time.Nanosecond) // Stopping is not reported once fn has returned
			return untilEnded(ctx, term)
		})
		sleep(time.Minute)
		require.Equal(t, "campaigning leading idle campaigning leading idle campaigning leading", r.states(), "it leads at once, also after the panic")
		require.NoError(t, c.Close())
		sleep(1)
		require.True(t, strings.HasSuffix(r.states(), " stopping idle campaigning idle"), r.states())
		require.ErrorIs(t, r.stop(nil), lockport.ErrClosed)
	})
}

// Nobody leads with a lock that is already lost.
func TestLostBeforeTheTerm(t *testing.T) {
	bubble(t, func(t *testing.T, s *memory.Server) {
		c, _ := client(t, s, lockport.Observe(lockport.Hooks{AcquireDone: func(_ context.Context, e lockport.AcquireEvent) {
			s.Lose(e.Name, nil)
			time.Sleep(time.Millisecond) // until the client knows
		}}))
		r := run(t.Context(), c, func(context.Context, *lockport.Lock) error { panic("it leads") })
		sleep(time.Second / 4)
		require.Equal(t, "campaigning idle", r.states())
		require.ErrorIs(t, r.last().Err, lockport.ErrLost)
	})
}

// altered is a backend whose server tells less.
type altered struct {
	*memorytest.Backend
	status func(*driver.Status)
}

func (b altered) Inspect(ctx context.Context, name string) (driver.Status, error) {
	st, err := b.Backend.Inspect(ctx, name)
	b.status(&st)
	return st, err
}

// Watch yields each leader once, and errors in between, also of a silent server. Readers and holders of permits do not lead.
func TestWatch(t *testing.T) {
	bubble(t, func(t *testing.T, s *memory.Server) {
		candidate, _ := client(t, s)
		observer, b := client(t, s)
		var seen []string
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() {
			for st, err := range leader.Watch(ctx, observer, "n", time.Second) {
				seen = append(seen, fmt.Sprintf("%s %t %d unavailable: %t", st.Name, st.Held, st.Token, errors.Is(err, lockport.ErrUnavailable)))
			}
		})
		for _, as := range []lockport.AcquireOption{lockport.Shared(), lockport.Permits(2)} {
			l := peer.Holds(t, candidate, "n", as)
			sleep(5 * time.Second)
			require.NoError(t, l.Release(t.Context()))
		}
		leading := run(t.Context(), candidate, func(context.Context, *lockport.Lock) error { time.Sleep(10 * time.Second); return nil }, leader.Backoff(5*time.Second, 5*time.Second))
		sleep(8 * time.Second)
		<-b.FailNext(memorytest.Look, nil)
		sleep(10 * time.Second)
		b.Pause()
		sleep(7 * time.Second) // as long as an Inspect may take, and more
		cancel()
		watching.Wait()
		for range leader.Watch(t.Context(), observer, "n", time.Second) {
			break // at an error too
		}
		_ = leading.stop(nil)
		require.Equal(t, []string{
			"n false 0 unavailable: false", "n true 3072 unavailable: false", "n false 0 unavailable: true", "n false 0 unavailable: false", "n true 4096 unavailable: false",
			" false 0 unavailable: true",
		}, seen)

		for what, alter := range map[string]func(*driver.Status){
			"owner": func(st *driver.Status) { st.Token = 0 },
			"token": func(st *driver.Status) { st.Owner = "cron" },
		} {
			terms, term := 0, peer.Holds(t, candidate, "n")
			for _, err := range leader.Watch(peer.Within(t, time.Minute), peer.Client(t, altered{memorytest.NewBackend(s, nil), alter}), "n", time.Second) {
				require.NoError(t, err)
				require.NoError(t, term.Release(t.Context()))
				if terms++; terms == 3 {
					break
				}
				term = peer.Holds(t, candidate, "n")
			}
			require.Equal(t, 3, terms, "each has another "+what)
		}
	})
}

// A term that is granted with less than Grace of its validity left begins once it is renewed.
func TestGraceOfALateGrant(t *testing.T) {
	bubble(t, func(t *testing.T, s *memory.Server) {
		c, b := client(t, s, lockport.TTL(8*time.Second))
		b.DelayNext(memorytest.Claim, 3500*time.Millisecond)
		b.DelayNext(memorytest.Renew, time.Second)
		r := run(t.Context(), c, untilEnded, leader.Grace(4*time.Second))
		sleep(30 * time.Second)
		require.Equal(t, "campaigning leading", r.states())
	})
}
