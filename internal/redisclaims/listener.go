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

// ChannelPrefix begins the names of channels; the client's part of its owner ids follows. The scripts publish a letter and an owner id:
// w: its turn has come; c: another client waits for what it holds; l: it was broken by force.
const ChannelPrefix = "lockport.wake:"

// clientOf is the part of an owner id that identifies its client, after the digits and the colon.
func clientOf(owner string) string { return owner[min(len(owner), 33):] }

const (
	pingAfter     = 3 * time.Second // of silence; a connection that stays silent as long again after the ping is dead
	reconnect     = 250 * time.Millisecond
	reconnectLate = 30 * time.Second // after an error reply: the user may not subscribe
)

// listener subscribes to the scripts' messages on one connection to one server. It connects on first use and then stays connected.
type listener struct {
	r      *Registry
	server int
	client goredis.UniversalClient

	mu      sync.Mutex
	clients map[string]bool // wanted subscriptions; true: confirmed
	pubsub  *goredis.PubSub // nil: not running
	closed  bool
	running sync.WaitGroup
}

// heard reports whether messages for client arrive.
func (l *listener) heard(client string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.clients[client]
}

// allConfirmed reports whether every subscription is confirmed.
func (l *listener) allConfirmed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, heard := range l.clients {
		if !heard {
			return false
		}
	}
	return true
}

// listen subscribes for client, in the background.
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
	l.running.Go(func() { _ = pubsub.Subscribe(l.r.ctx, ChannelPrefix+client) }) // run handles the outcome
}

// run receives messages until the registry is closed.
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
				l.r.handle(l.server, m.Payload)
			case *goredis.Subscription:
				if m.Kind == "subscribe" {
					l.confirmed(m.Channel[len(ChannelPrefix):])
				}
			}
			continue
		}
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() && !pinged && l.allConfirmed() {
			pinged = pubsub.Ping(ctx) == nil
			if pinged {
				continue
			}
		}
		pinged = false
		d := reconnect
		l.disconnected()
		if reply := goredis.Error(nil); errors.As(err, &reply) {
			d = reconnectLate
		}
		select {
		case <-time.After(d):
			l.redial()
		case <-ctx.Done():
		}
	}
}

// redial replaces the connection.
func (l *listener) redial() {
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

// disconnected marks all subscriptions as lost. If any was confirmed, waiters try at once, and poll from then on.
func (l *listener) disconnected() {
	was := false
	l.mu.Lock()
	for client, heard := range l.clients {
		was = was || heard
		l.clients[client] = false
	}
	l.mu.Unlock()
	if was {
		callAll(l.r.waitersOf(""))
	}
}

// confirmed records the subscription of client. Earlier messages may have been missed, so its waiters try again and its holders ask
// whether anybody waits.
func (l *listener) confirmed(client string) {
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

// close ends the subscriptions, whose context has ended. go-redis may wait for a silent server, so close waits for a second at most.
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
		return pubsub.Close() // ends a pending receive
	})
}
