package redisclaims

import (
	"context"
	"errors"
	"math/bits"
	"net"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/lockport/lockport/internal/redisscript"
)

// channelOf is the channel of owner's client, whose part of the owner id follows the digits and the colon.
func channelOf(owner string) string { return redisscript.ChannelPrefix + owner[min(len(owner), 33):] }

const (
	pingAfter     = 3 * time.Second // of silence; a connection that stays silent as long again after the ping is dead
	reconnect     = 250 * time.Millisecond
	reconnectLate = 30 * time.Second // after an error reply: the user may not subscribe
)

// listen subscribes to the channel of owner's client on one connection to each server, in the background. The connections stay. The claims of
// another client poll as if nobody listened. The mutex is held.
func (r *Registry[M]) listen(owner string) {
	if r.channel != "" {
		return
	}
	r.channel = channelOf(owner)
	for server := range r.o.Pipes {
		go r.hear(server, r.channel)
	}
}

// Heard reports whether messages for owner arrive from a quorum of the servers.
func (r *Registry[M]) Heard(owner string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.channel == channelOf(owner) && bits.OnesCount64(r.heard) >= r.o.Quorum
}

// hear handles a server's messages until the registry is closed.
func (r *Registry[M]) hear(server int, channel string) {
	for r.ctx.Err() == nil {
		err := r.receive(server, channel)
		r.setHeard(server, false)
		pause := reconnect
		if _, refused := errors.AsType[goredis.Error](err); refused {
			pause = reconnectLate
		}
		select {
		case <-time.After(pause):
		case <-r.ctx.Done():
		}
	}
}

// receive handles a server's messages until the connection fails.
func (r *Registry[M]) receive(server int, channel string) error {
	client := r.o.Pipes[server].Client
	node := func() (master *goredis.Client) { // has the channel's slot in a Cluster
		if cluster, ok := client.(*goredis.ClusterClient); ok {
			master, _ = cluster.MasterForKey(r.ctx, channel)
		}
		return master
	}
	at := node()
	pubsub := client.Subscribe(r.ctx, channel)
	closing := func() { _ = pubsub.Close() }
	defer closing()
	defer context.AfterFunc(r.ctx, closing)() // ends a pending receive
	for confirmed, pinged := false, false; ; {
		got, err := pubsub.ReceiveTimeout(r.ctx, pingAfter)
		failed, ofNetwork := errors.AsType[net.Error](err)
		pinged = confirmed && !pinged && ofNetwork && failed.Timeout()
		if pinged && node() == at { // a node that has left the Cluster answers pings, but gets no messages
			err = pubsub.Ping(r.ctx)
		}
		if err != nil {
			return err
		}
		switch m := got.(type) {
		case *goredis.Message:
			r.handle(server, m.Payload)
		case *goredis.Subscription:
			confirmed = true
			// Without the right to publish, no script of this user wakes anybody.
			if err := client.Publish(r.ctx, channel, "").Err(); goredis.IsPermissionError(err) {
				return err
			}
			r.setHeard(server, true)
		}
	}
}

// setHeard records whether a server's messages arrive. Some may have been missed, so waiters try at once. That tells holders again who
// waits. The exception: readers and permits tell holders only when they begin to wait. Then a plain holder may hand off for all of its 100 ms.
func (r *Registry[M]) setHeard(server int, heard bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.heard
	r.heard &^= 1 << server
	if heard {
		r.heard |= 1 << server
	}
	for _, m := range r.members {
		if heard || r.heard != before {
			m.Base().wakeUp()
		}
	}
}
