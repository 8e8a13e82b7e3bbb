package redisclaims

import (
	"context"
	"errors"
	"net"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/internal/redisscript"
)

// ChannelPrefix begins the names of channels; the client that listens follows. The scripts publish the letter w and an owner id: its turn
// has come; c and an owner id: somebody waits for what it holds; or l and an owner id: it was broken by force.
const ChannelPrefix = "lockport.wake:"

// clientOf is the part of an owner id by which the scripts address its client: what follows the digits and the colon.
func clientOf(owner string) string { return owner[min(len(owner), 33):] }

const (
	pingAfter    = 3 * time.Second       // of silence on the connection; no answer in the same time again means that it is dead
	relistenSoon = 50 * time.Millisecond // after a connection that worked
	relisten     = time.Second
	relistenLate = 30 * time.Second // where the user may not subscribe
)

// listener listens, on one connection to one server, for what the scripts have to tell. It connects when it is first asked to, and then
// stays.
type listener struct {
	r      *Registry
	server int
	client goredis.UniversalClient

	mu      sync.Mutex
	clients map[string]bool // that are to be listened for; true: they are
	pubsub  *goredis.PubSub // nil: not running
	closed  bool
	running sync.WaitGroup
}

// heard says whether what is published for client arrives.
func (l *listener) heard(client string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clients[client]
}

// hearsAll says whether every subscription is confirmed.
func (l *listener) hearsAll() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, heard := range l.clients {
		if !heard {
			return false
		}
	}
	return true
}

// listen begins to listen for client, in the background.
func (l *listener) listen(client string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.clients[client]; ok || l.closed {
		return
	}
	l.clients[client] = false
	if l.pubsub == nil {
		l.pubsub = l.client.Subscribe(l.r.ctx)
		l.running.Go(l.run)
	}
	pubsub := l.pubsub
	l.running.Go(func() { _ = pubsub.Subscribe(l.r.ctx, ChannelPrefix+client) }) // run sees what becomes of it
}

// run receives until the registry is closed.
func (l *listener) run() {
	ctx := l.r.ctx
	pinged := false
	for ctx.Err() == nil {
		l.mu.Lock()
		pubsub := l.pubsub
		l.mu.Unlock()
		got, err := pubsub.ReceiveTimeout(ctx, pingAfter)
		if err == nil {
			pinged = false
			switch m := got.(type) {
			case *goredis.Message:
				l.r.told(l.server, m.Payload)
			case *goredis.Subscription:
				if m.Kind == "subscribe" {
					l.listening(m.Channel[len(ChannelPrefix):])
				}
			}
			continue
		}
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() && !pinged && l.hearsAll() {
			pinged = pubsub.Ping(ctx) == nil
			if pinged {
				continue
			}
		}
		pinged = false
		d := relisten
		if l.deaf() {
			d = relistenSoon
		}
		if reply := goredis.Error(nil); errors.As(err, &reply) {
			d = relistenLate
		}
		select {
		case <-time.After(d):
			l.renew()
		case <-ctx.Done():
		}
	}
}

// renew begins to listen on another connection.
func (l *listener) renew() {
	l.mu.Lock()
	old := l.pubsub
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.pubsub = l.client.Subscribe(l.r.ctx)
	pubsub := l.pubsub
	channels := make([]string, 0, len(l.clients))
	for client := range l.clients {
		channels = append(channels, ChannelPrefix+client)
	}
	l.mu.Unlock()
	_ = old.Close()
	_ = pubsub.Subscribe(l.r.ctx, channels...)
}

// deaf notes that nothing is heard any more, and says whether something was. Those who wait look again, and from then on poll.
func (l *listener) deaf() (was bool) {
	l.mu.Lock()
	for client, heard := range l.clients {
		was = was || heard
		l.clients[client] = false
	}
	l.mu.Unlock()
	if was {
		callAll(l.r.waitersOf(""))
	}
	return was
}

// listening notes that client is listened for. What was published before is made up for: those who wait look again, and those who
// hold ask whether somebody waits.
func (l *listener) listening(client string) {
	l.mu.Lock()
	l.clients[client] = true
	l.mu.Unlock()
	callAll(l.r.waitersOf(client))
	if holders := l.r.holdersOf(client); len(holders) > 0 {
		l.running.Go(func() {
			ctx, cancel := context.WithTimeout(l.r.ctx, 5*time.Second)
			defer cancel()
			l.r.o.Contended(ctx, l.server, holders)
		})
	}
}

func callAll(all []func()) {
	for _, f := range all {
		f()
	}
}

// close ends the listening, whose context is over. It does not wait for long for go-redis, which may be waiting for a server that is silent.
func (l *listener) close() {
	l.mu.Lock()
	l.closed = true
	pubsub := l.pubsub
	l.mu.Unlock()
	if pubsub == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = redisscript.Guard(ctx, func() error {
		defer l.running.Wait()
		return pubsub.Close() // ends a receive under way
	})
}
