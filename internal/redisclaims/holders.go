package redisclaims

import "time"

const (
	// holderPatience is how long a lock is held before its holder listens for others that wait. Who holds for a moment at a time,
	// and never waits, needs no connection for that.
	holderPatience = 20 * time.Millisecond
	// maxAsked is for how many held locks a holder that has just begun to listen asks whether somebody waits already.
	maxAsked = 10_000
)

// listen begins to listen for client everywhere, in the background.
func (r *Registry) listen(client string) {
	for _, l := range r.listeners {
		l.listen(client)
	}
	r.known.Store(&client)
}

// watchHolder sees to it that the client of c, which has just been granted, is listened for if it holds for longer than a moment.
// The mutex is held.
func (r *Registry) watchHolder(c *Claim) {
	if known := r.known.Load(); known != nil && *known == clientOf(c.Req.Owner) {
		return
	}
	if r.armed.CompareAndSwap(false, true) {
		time.AfterFunc(holderPatience, r.lookAtHolders)
	}
}

func (r *Registry) lookAtHolders() {
	r.armed.Store(false)
	clients := make(map[string]bool) // true: has held for long enough
	r.mu.Lock()
	for _, m := range r.members {
		c := m.Base()
		if client := clientOf(c.Req.Owner); c.held && !clients[client] {
			clients[client] = time.Since(started)-c.since >= holderPatience
		}
	}
	closed := r.closed
	r.mu.Unlock()
	again := false
	for client, long := range clients {
		if long {
			r.listen(client)
		} else {
			again = true
		}
	}
	if again && !closed && r.armed.CompareAndSwap(false, true) {
		time.AfterFunc(holderPatience, r.lookAtHolders)
	}
}
