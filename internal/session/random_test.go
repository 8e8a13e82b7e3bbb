package session

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
)

// TestRandomInterleavings has some backends claim a few names on a server that can tell who waits or cannot, with some blockers or none, and links that
// fail in every way. A model checks that nobody believes in a lock while somebody else does, that the engine never takes a key twice, nor gives back what
// it does not have, and that nothing is left at the end.
func TestRandomInterleavings(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newModel(t, seed).run() })
		})
	}
}

// model is who believes to have what.
type model struct {
	t        *testing.T
	s        *simulated
	blockers int

	mu      sync.Mutex
	holders map[string]*belief
	wrong   []string
	grants  int
	lost    int
	// contended is how often a holder was told that others wait.
	contended int
}

// belief is that of one claim: from its grant until it is told, its time is up, or it begins to release.
type belief struct {
	owner string
	until time.Time
	token uint64
	over  bool
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, s: newSimulated(seed, 2*time.Second), blockers: 2 * int(seed%3), holders: make(map[string]*belief)}
	m.s.deaf = seed%2 == 0
	return m
}

func (m *model) run() {
	var workers sync.WaitGroup
	var backends []*Backend
	for range 3 {
		b := New(m.s, Options{TTL: m.s.ttl, Blockers: m.blockers, Layout: plainLayout})
		backends = append(backends, b)
		for range 5 {
			workers.Go(func() {
				for range 60 {
					m.work(b, string(rune('a'+m.s.under(3))))
				}
			})
		}
	}
	go m.s.trouble()
	workers.Wait()
	m.s.mu.Lock()
	m.s.calm = true
	m.s.mu.Unlock()
	time.Sleep(3 * m.s.ttl)
	synctest.Wait()
	require.Empty(m.t, m.wrong)
	require.Empty(m.t, m.s.mistakes())
	require.Empty(m.t, m.s.left(""))
	require.Greater(m.t, m.grants, 30)
	require.Equal(m.t, m.s.deaf, m.contended == 0)
	for _, b := range backends {
		require.Empty(m.t, b.table)
		require.Empty(m.t, b.dead)
		require.Empty(m.t, b.watches)
		require.NoError(m.t, b.Close())
	}
	time.Sleep(3 * m.s.ttl)
}

// believe notes that a claim was granted, or renewed.
func (m *model) believe(name string, bel *belief, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	bel.until = until
	if bel.over || !now.Before(until) {
		return
	}
	other := m.holders[name]
	if other != nil && other != bel && m.holds(other) && m.holds(bel) {
		m.wrong = append(m.wrong, fmt.Sprintf("%s: token %d is believed in until %v, and %d until %v", name,
			other.token, other.until.Sub(now), bel.token, until.Sub(now)))
	}
	m.holders[name] = bel
}

func (m *model) holds(b *belief) bool {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	return !b.over && time.Now().Before(b.until) && !m.s.spent[b.token]
}

func (m *model) end(b *belief) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b.over = true
}

// work makes one claim of name, in one of the ways in which clients do, and sees it to its end.
func (m *model) work(b *Backend, name string) {
	s, bel := m.s, new(belief)
	req := request(name)
	req.TTL, bel.owner = s.ttl, req.Owner
	told := 0
	req.Lost = func(error) {
		m.mu.Lock()
		defer m.mu.Unlock()
		bel.over = true
		m.lost++
		if told++; told > 1 {
			m.wrong = append(m.wrong, "told twice")
		}
	}
	req.Contended = func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.contended++
	}
	claim := b.TryAcquire
	if s.under(3) == 0 {
		claim = b.Wait
	}
	lease, err := m.bounded(claim, req)
	for attempt := 0; err != nil && attempt < 3; attempt++ {
		switch {
		case errors.Is(err, driver.ErrHeld):
			woken := make(chan struct{}, 1)
			stop := b.Notify(req, func() {
				select {
				case woken <- struct{}{}:
				default:
				}
			})
			select {
			case <-woken:
			case <-time.After(time.Duration(s.under(int64(time.Second)))):
			}
			stop()
		case errors.Is(err, driver.ErrUnknown) && s.under(2) == 0:
			m.abandon(b, req)
			return
		default:
			time.Sleep(time.Duration(s.under(int64(20 * time.Millisecond))))
		}
		lease, err = m.bounded(b.TryAcquire, req)
	}
	if err != nil {
		if !errors.Is(err, driver.ErrHeld) && !errors.Is(err, driver.ErrUnavailable) {
			m.abandon(b, req)
		}
		return
	}
	m.mu.Lock()
	m.grants++
	bel.token = lease.Grant().Token
	m.mu.Unlock()
	m.believe(name, bel, lease.Grant().Until)
	m.hold(b, name, bel, lease)
	m.end(bel)
	if s.under(4) == 0 {
		m.abandon(b, req)
	}
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+s.under(int64(s.ttl))))
		err := lease.Release(ctx)
		cancel()
		if err == nil || errors.Is(err, driver.ErrLost) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// hold keeps a claim for a while, and renews it or does not.
func (m *model) hold(b *Backend, name string, bel *belief, lease driver.Lease) {
	s := m.s
	for renew := s.under(4) > 0; s.under(3) > 0; {
		time.Sleep(time.Duration(s.under(int64(s.ttl) / 2)))
		if !renew {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), s.ttl/4)
		until, err := driver.Renew(ctx, b, lease)
		cancel()
		if err == nil {
			m.mu.Lock()
			earlier := until.Before(bel.until)
			m.mu.Unlock()
			if earlier {
				m.mu.Lock()
				m.wrong = append(m.wrong, "a renewal moved the validity back")
				m.mu.Unlock()
			}
			m.believe(name, bel, until)
		}
	}
}

// bounded makes a claim with a context that ends soon.
func (m *model) bounded(claim func(context.Context, driver.Request) (driver.Lease, error), req driver.Request) (driver.Lease, error) {
	limit := time.Duration(1 + m.s.under(int64(10*time.Millisecond)))
	if m.s.under(3) > 0 {
		limit = time.Duration(1 + m.s.under(int64(m.s.ttl)))
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	start := time.Now()
	lease, err := claim(ctx, req)
	if late := time.Since(start) - limit; late > 0 {
		m.mu.Lock()
		m.wrong = append(m.wrong, fmt.Sprintf("it returned %v after the end of its context", late))
		m.mu.Unlock()
	}
	if err != nil && strings.Count(err.Error(), "\n") > 0 {
		m.t.Error(err)
	}
	return lease, err
}

// abandon repeats Abandon until it is certain, as the client does.
func (m *model) abandon(b *Backend, req driver.Request) {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+m.s.under(int64(m.s.ttl))))
		err := b.Abandon(ctx, req)
		cancel()
		if err == nil {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}
