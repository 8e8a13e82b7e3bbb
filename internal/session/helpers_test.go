package session

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/peer"
)

var plainLayout = Layout{
	exact: func(name string) (Key, error) { return Key(name), nil },
	hash:  func(sum [sha256.Size]byte) Key { return Key(fmt.Sprintf("%x", sum[:3])) },
}

const kindLetters = "TFPALE"

// handTTL is the TTL of backends on a hand.
const handTTL = 9 * time.Second

// hand is a server whose answers the test gives. It runs in a synctest bubble: once all goroutines wait, all requests have been sent.
type hand struct {
	t     *testing.T
	b     *Backend
	dials []*handDial
	conns []*handConn // in the order of accept
	token uint64
	deaf  bool      // see handConn; for the next one
	fails time.Time // when a dial last failed
}

// handDial is a Dial under way.
type handDial struct {
	events Events
	answer chan any // a *handConn or an error
}

// byHand runs f in a bubble. Afterwards the backend must have left nothing open.
func byHand(t *testing.T, o Options, f func(t *testing.T, h *hand)) {
	synctest.Test(t, func(t *testing.T) {
		h := &hand{t: t, token: 100}
		o.Dial, o.TTL, o.Layout = h.Dial, handTTL, plainLayout
		h.b = New(o)
		f(t, h)
		require.NoError(t, h.b.Close())
		for _, c := range h.conns {
			require.True(t, c.closed, "Close left a connection open")
		}
		h.wait(context.Background(), request("late")).is(t, driver.ErrUnavailable)
		h.b.Notify(request("late"), func() {})()
	})
}

func (h *hand) Dial(ctx context.Context, _ string, e Events) (Conn, error) {
	require.GreaterOrEqual(h.t, time.Since(h.fails), redialPause, "a failed dial is repeated without a pause")
	d := &handDial{events: e, answer: make(chan any, 1)}
	h.dials = append(h.dials, d)
	select {
	case a := <-d.answer:
		if err, ok := a.(error); ok {
			h.fails = time.Now()
			return nil, err
		}
		return a.(Conn), nil
	case <-ctx.Done():
		return nil, unavailable(ctx.Err())
	}
}

// accept answers the only dial under way.
func (h *hand) accept() *handConn {
	c := &handConn{h: h, id: fmt.Sprintf("session-%d", len(h.conns)), reply: make(chan error, 1), broken: make(chan error, 1), deaf: h.deaf}
	h.deaf = false
	h.conns = append(h.conns, c)
	c.events = h.dialed(c)
	return c
}

// dialed ends the only dial under way, with a *handConn or an error.
func (h *hand) dialed(answer any) Events {
	time.Sleep(redialPause)
	synctest.Wait()
	require.Len(h.t, h.dials, 1, "dials under way")
	d := h.dials[0]
	h.dials = nil
	d.answer <- answer
	synctest.Wait()
	return d.events
}

// handConn is a Conn whose requests the test answers.
type handConn struct {
	h      *hand
	id     string
	events Events
	closed bool

	mu     sync.Mutex
	ops    []*Op // under way
	waits  bool
	count  int        // requests so far
	reply  chan error // what Do or Wait returns
	broken chan error // what Listen returns
	deaf   bool       // Do and Wait ignore the end of their context
}

func (c *handConn) Close() {
	require.False(c.h.t, c.closed, "closed twice")
	c.closed = true
}

func (c *handConn) Do(ctx context.Context, ops []*Op) error {
	require.False(c.h.t, c.closed, "used after Close")
	require.Nil(c.h.t, c.ops, "called during another request")
	require.NotEmpty(c.h.t, ops)
	require.LessOrEqual(c.h.t, len(ops), MaxBatch)
	c.mu.Lock()
	c.ops = ops
	c.count++
	c.mu.Unlock()
	if c.deaf {
		ctx = context.Background()
	}
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.ops, c.waits = nil, false
	}()
	select {
	case err := <-c.reply:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *handConn) Wait(ctx context.Context, op *Op) error {
	c.waits = true
	return c.Do(ctx, []*Op{op})
}

func (c *handConn) Listen(ctx context.Context) error {
	select {
	case err := <-c.broken:
		return err
	case <-ctx.Done():
		return nil
	}
}

// asked returns the request under way: kindLetters with keys.
func (c *handConn) asked() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	var all []string
	for _, op := range c.ops {
		s := kindLetters[op.Kind:op.Kind+1] + string(op.Key)
		if op.Kind == End {
			s += op.Earlier.(*handConn).id
		}
		all = append(all, s)
	}
	return strings.Join(all, " ") + map[bool]string{true: "!"}[c.waits]
}

// answer checks that want is asked, and grants all of it but the keys in no.
func (c *handConn) answer(want string, no ...Key) {
	require.Equal(c.h.t, want, c.asked())
	for _, op := range c.ops {
		if op.OK = !slices.Contains(no, op.Key); op.OK && op.Kind == Try {
			c.h.token++
			op.Token = c.h.token
		}
	}
	c.finish(nil)
}

// grants answers want, which ends the call o without an error.
func (c *handConn) grants(o *outcome, want string) {
	c.answer(want)
	o.is(c.h.t, nil)
}

// fail ends the connection, before the answer of a request under way.
func (c *handConn) fail(err error) {
	synctest.Wait()
	if c.ops != nil {
		c.finish(err)
		return
	}
	c.broken <- err
	synctest.Wait()
}

// finish ends the request under way.
func (c *handConn) finish(err error) {
	c.reply <- err
	synctest.Wait()
}

var errCut = errors.New("the connection\nwas cut")

func request(name string) driver.Request { return (&peer.Peer{TTL: handTTL}).Request(name) }

// outcome is what a call returned.
type outcome struct {
	lease driver.Lease
	err   error
	over  atomic.Bool
}

func (h *hand) try(ctx context.Context, req driver.Request) *outcome {
	o := new(outcome)
	return o.begin(func() (err error) { o.lease, err = h.b.TryAcquire(ctx, req); return err })
}

func (h *hand) wait(ctx context.Context, req driver.Request) *outcome {
	o := new(outcome)
	return o.begin(func() (err error) { o.lease, err = h.b.Wait(ctx, req); return err })
}

func (h *hand) abandon(ctx context.Context, req driver.Request) *outcome {
	return begin(func() error { return h.b.Abandon(ctx, req) })
}

func (h *hand) renew(ctx context.Context, l driver.Lease) *outcome {
	return begin(func() error { return peer.ErrOf(driver.Renew(ctx, h.b, l)) })
}

func release(ctx context.Context, l driver.Lease) *outcome {
	return begin(func() error { return l.Release(ctx) })
}

func begin(f func() error) *outcome { return new(outcome).begin(f) }

func (o *outcome) begin(f func() error) *outcome {
	go func() { o.err = f(); o.over.Store(true) }()
	synctest.Wait()
	return o
}

// is checks that the call has returned, with an error of class or with none.
func (o *outcome) is(t *testing.T, class error) {
	synctest.Wait()
	require.True(t, o.over.Load(), "the call has not returned")
	if class == nil {
		require.NoError(t, o.err)
		return
	}
	require.ErrorIs(t, o.err, class)
	require.Equal(t, class, classOf(o.err))
	require.NotContains(t, o.err.Error(), "\n")
	require.Nil(t, o.lease)
}

// pending checks that the call has not returned.
func (o *outcome) pending(t *testing.T) {
	synctest.Wait()
	require.False(t, o.over.Load(), "the call has returned")
}

// held acquires req on c, which is live.
func (h *hand) held(c *handConn, req driver.Request) driver.Lease {
	o := h.try(context.Background(), req)
	c.grants(o, "T"+req.Name)
	return o.lease
}

// frees releases l, the claim of key on c.
func (h *hand) frees(c *handConn, l driver.Lease, key string) {
	c.grants(release(context.Background(), l), "F"+key)
}

// live opens the main session by acquiring req.
func (h *hand) live(req driver.Request) (*handConn, driver.Lease) {
	o := h.try(context.Background(), req)
	c := h.accept()
	c.grants(o, "T"+req.Name)
	return c, o.lease
}

// fails checks that want is asked, and answers that its only op failed with err.
func (c *handConn) fails(want string, err error) {
	require.Equal(c.h.t, want, c.asked())
	c.ops[0].Err = err
	c.finish(nil)
}
