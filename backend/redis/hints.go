package redis

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/driver"
)

// channelPrefix begins the names of channels; the client that listens follows. The scripts publish the letter w and an owner id: its turn
// has come; c and an owner id: somebody waits for what it holds; or l and an owner id: it was broken by force.
const channelPrefix = "lockport.wake:"

// clientOf is the part of an owner id by which the scripts address its client: what follows the digits and the colon.
func clientOf(owner string) string { return owner[min(len(owner), 33):] }

const (
	// holderPatience is how long a lock is held before its holder listens for others that wait. Who holds for a moment at a time,
	// and never waits, needs no connection for that.
	holderPatience = 20 * time.Millisecond
	// maxAsked is for how many held locks a holder that has just begun to listen asks whether somebody waits already.
	maxAsked = 10_000

	pingAfter    = 3 * time.Second // of silence on the connection; no answer in the same time again means that it is dead
	relistenSoon = 50 * time.Millisecond
	relistenLate = 30 * time.Second // where the user may not subscribe
)

// hints listens, on one connection, for what the scripts have to tell. It connects when a claim first waits, or a lock is held for
// longer than a moment, and then stays.
type hints struct {
	b      *Backend
	ctx    context.Context
	cancel context.CancelFunc
	armed  atomic.Bool            // lookAtHolders is on its way
	known  atomic.Pointer[string] // the client last listened for: as a rule there is one

	mu      sync.Mutex
	clients map[string]bool // that are to be listened for; true: they are
	pubsub  *goredis.PubSub // nil: not running
	closed  bool
	running sync.WaitGroup
}

func newHints(b *Backend) *hints {
	h := &hints{b: b, clients: make(map[string]bool)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Notify implements driver.Notifier.
func (b *Backend) Notify(req driver.Request, wake func()) (stop func()) {
	b.mu.Lock()
	c := b.claims[req.Owner]
	if c == nil {
		c = b.newClaim(req)
		b.claims[req.Owner] = c
	}
	hinted := c.hinted
	c.hinted, c.wake = false, wake
	b.mu.Unlock()
	if hinted {
		wake()
	}
	b.hints.listen(clientOf(req.Owner))
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		c.wake = nil
		if !c.asking && !c.queued && !c.isHeld {
			b.retire(c)
		}
	}
}

// heard says whether what is published for client arrives.
func (h *hints) heard(client string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.clients[client]
}

// hearsAll says whether every subscription is confirmed.
func (h *hints) hearsAll() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, heard := range h.clients {
		if !heard {
			return false
		}
	}
	return true
}

// listen begins to listen for client, in the background.
func (h *hints) listen(client string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.clients[client]; ok || h.closed {
		return
	}
	h.clients[client] = false
	h.known.Store(&client)
	if h.pubsub == nil {
		h.pubsub = h.b.client.Subscribe(h.ctx)
		h.running.Go(h.run)
	}
	pubsub := h.pubsub
	h.running.Go(func() { _ = pubsub.Subscribe(h.ctx, channelPrefix+client) }) // run sees what becomes of it
}

// watchHolder sees to it that the client of c, which has just been granted, is listened for if it holds for longer than a moment.
// The registry is locked.
func (h *hints) watchHolder(c *claim) {
	if known := h.known.Load(); known != nil && *known == clientOf(c.owner) {
		return
	}
	if h.armed.CompareAndSwap(false, true) {
		time.AfterFunc(holderPatience, h.lookAtHolders)
	}
}

func (h *hints) lookAtHolders() {
	h.armed.Store(false)
	clients := make(map[string]bool) // true: has held for long enough
	h.b.mu.Lock()
	for _, c := range h.b.claims {
		if c.isHeld && !clients[clientOf(c.owner)] {
			clients[clientOf(c.owner)] = time.Since(c.since) >= holderPatience
		}
	}
	h.b.mu.Unlock()
	again := false
	for client, long := range clients {
		if long {
			h.listen(client)
		} else {
			again = true
		}
	}
	h.mu.Lock()
	closed := h.closed
	h.mu.Unlock()
	if again && !closed && h.armed.CompareAndSwap(false, true) {
		time.AfterFunc(holderPatience, h.lookAtHolders)
	}
}

// run receives until the backend is closed.
func (h *hints) run() {
	pinged := false
	for h.ctx.Err() == nil {
		h.mu.Lock()
		pubsub := h.pubsub
		h.mu.Unlock()
		got, err := pubsub.ReceiveTimeout(h.ctx, pingAfter)
		if err == nil {
			pinged = false
			switch m := got.(type) {
			case *goredis.Message:
				h.told(m.Payload)
			case *goredis.Subscription:
				if m.Kind == "subscribe" {
					h.listening(m.Channel[len(channelPrefix):])
				}
			}
			continue
		}
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() && !pinged && h.hearsAll() {
			pinged = pubsub.Ping(h.ctx) == nil
			if pinged {
				continue
			}
		}
		pinged = false
		h.deaf()
		h.pause(err)
	}
}

// pause waits, and begins anew on another connection.
func (h *hints) pause(err error) {
	d := relistenSoon
	if reply := goredis.Error(nil); errors.As(err, &reply) {
		d = relistenLate
	}
	select {
	case <-time.After(d):
	case <-h.ctx.Done():
		return
	}
	h.mu.Lock()
	old := h.pubsub
	if h.closed {
		h.mu.Unlock()
		return
	}
	h.pubsub = h.b.client.Subscribe(h.ctx)
	pubsub := h.pubsub
	channels := make([]string, 0, len(h.clients))
	for client := range h.clients {
		channels = append(channels, channelPrefix+client)
	}
	h.mu.Unlock()
	_ = old.Close()
	_ = pubsub.Subscribe(h.ctx, channels...)
}

// deaf notes that nothing is heard any more. Those who wait look again, and from then on poll.
func (h *hints) deaf() {
	h.mu.Lock()
	was := false
	for client, heard := range h.clients {
		was = was || heard
		h.clients[client] = false
	}
	h.mu.Unlock()
	if was {
		h.wakeAll(func(*claim) bool { return true })
	}
}

// listening notes that client is listened for. What was published before is made up for: those who wait look again, and those who
// hold ask whether somebody waits.
func (h *hints) listening(client string) {
	h.mu.Lock()
	h.clients[client] = true
	h.mu.Unlock()
	h.wakeAll(func(c *claim) bool { return clientOf(c.owner) == client })
	var holders []*claim
	h.b.mu.Lock()
	for _, c := range h.b.claims {
		if c.isHeld && c.req.Contended != nil && clientOf(c.owner) == client && len(holders) < maxAsked {
			holders = append(holders, c)
		}
	}
	h.b.mu.Unlock()
	if len(holders) > 0 {
		h.running.Go(func() { h.askWhetherContended(holders) })
	}
}

func (h *hints) askWhetherContended(holders []*claim) {
	ctx, cancel := context.WithTimeout(h.ctx, 5*time.Second)
	defer cancel()
	ask := func(c *claim) (string, []any) { return c.keys.queue, nil }
	h.b.forEach(ctx, holders, waitingScript, ask, false, func(i int, reply any, _ int, err error) {
		if waiting, ok := reply.(int64); err == nil && ok && waiting > 0 {
			holders[i].req.Contended()
		}
	})
}

// wakeAll lets those of the claims that wait try again.
func (h *hints) wakeAll(which func(*claim) bool) {
	var wake []func()
	h.b.mu.Lock()
	for _, c := range h.b.claims {
		if c.wake != nil && which(c) {
			wake = append(wake, c.wake)
		}
	}
	h.b.mu.Unlock()
	for _, w := range wake {
		w()
	}
}

// told passes on what a script published.
func (h *hints) told(word string) {
	if word == "" {
		return
	}
	h.b.mu.Lock()
	c := h.b.claims[word[1:]]
	var call func()
	switch {
	case c == nil:
	case word[0] == 'w' && c.wake != nil:
		call = c.wake
	case word[0] == 'w':
		c.hinted = true
	case word[0] == 'c':
		call = c.req.Contended
	case word[0] == 'l' && c.isHeld:
		call = c.broken
	}
	h.b.mu.Unlock()
	if call != nil {
		call()
	}
}

// closeTime is how long close waits for go-redis, which may be waiting for a server that is silent.
const closeTime = time.Second

// close ends the listening.
func (h *hints) close() {
	h.mu.Lock()
	h.closed = true
	pubsub := h.pubsub
	h.mu.Unlock()
	h.cancel()
	if pubsub == nil {
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = pubsub.Close() // ends a receive under way
		h.running.Wait()
	}()
	select {
	case <-done:
	case <-time.After(closeTime):
	}
}
