package redlock

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/redisclaims"
	"github.com/lockport/lockport/internal/redisscript"
)

// claim is what this backend knows of one owner id: a claim that is being made or waits, and then the lease.
type claim struct {
	redisclaims.Claim
	b     *Backend
	keys  [2]string // the lock, the queue
	value string    // of the lock
	place int64     // in the queues: when the claim was first made, in µs

	mu      sync.Mutex // guards what follows
	seats   []seat     // what each node has of the claim
	changed chan struct{}
	round   int32     // counts the times that the nodes were asked
	splits  int32     // attempts in a row that nobody won
	heard   time.Time // when a node last said that another has its vote
	phase   phase     // what is waited for
	ready   bool      // it has come
	gaveUp  bool      // abandoned: nothing more is asked for

	// The lease.
	contended bool // somebody waited when it was granted
	ended     bool
	endedAs   error     // what Release returns once it has ended
	from      time.Time // the first validity
	until     time.Time // the latest validity
}

// seat is what one node has of a claim, as far as is known. Each lock that is held has as many as there are nodes, so it is kept small.
type seat struct {
	gen    uint64 // the connection of the latest request that claims
	round  int32  // of that request
	flying int16  // requests that claim, without an answer
	loose  bool   // one of them may still arrive, or its fate is not known
	state  state

	err    error  // of seatFailed and seatUnknown
	ms     int64  // of seatHeld: until the holder's time is up
	holder string // of seatHeld: the lock's value; "": somebody is to have it next
	flag   bool   // of seatHeld: the holder is foreign; of seatGranted: somebody waits

	tainted bool  // one of backs may still arrive: no vote of this node is safe from it
	backs   int16 // requests to give back, without an answer

	tries  uint8 // of a request to give back, to release or to abandon, on another connection
	asking bool  // a request to release, or to abandon, without an answer
	freed  freed
	maybe  bool // an earlier one may have freed it
}

// state is what became of the latest request for a seat.
type state uint8

const (
	seatNone    state = iota // nothing was asked of the node, or it was given back
	seatAsked                // no answer yet
	seatGranted              // the node has the lock for this claim
	seatHeld                 // the node has it for somebody else
	seatGone                 // the node says that the claim was abandoned
	seatFailed               // the request had no effect
	seatUnknown              // the request may have had an effect, or may still have one
)

// freed is what became of the release of a seat.
type freed uint8

const (
	freedNot    freed = iota
	freedHere         // by this release
	freedBefore       // the node had nothing of the claim
	freedMaybe        // the node had nothing of it, perhaps by an earlier release
)

// phase is what a call waits for.
type phase uint8

const (
	idle       phase = iota
	claiming         // a majority, or the certainty that there is none
	givingBack       // that the nodes which granted take back
	releasing        // a majority that has freed, or had nothing to free
	abandoning       // a majority that has freed, and refuses the claim should it arrive
)

// kind is what an answer is about.
type kind int

const (
	callClaim kind = iota
	callGiveBack
	callRelease
	callAbandon
	callRetake
	callKinds
)

// number makes the number of a call: what it is about, the node and the round.
func (k kind) number(i int, round int32) int { return (int(round)*maxNodes+i)*int(callKinds) + int(k) }

func parseCall(number int) (k kind, i int, round int32) {
	k, number = kind(number%int(callKinds)), number/int(callKinds)
	return k, number % maxNodes, int32(number / maxNodes)
}

func (b *Backend) newClaim(req driver.Request) redisclaims.Member {
	lock, queue := b.layout.KeyAndSide(req.Name, queueKey)
	c := &claim{
		b: b, value: redisscript.Value(req.Owner), changed: make(chan struct{}, 1),
		keys:  [2]string{lock, queue},
		place: min(max(time.Now().UnixMicro(), 1), maxPlace),
		seats: make([]seat, len(b.nodes)),
	}
	c.Req = req
	return c
}

const (
	queueKey = "queue"
	maxPlace = 4e15 - 1 // see queue.lua
	maxAgain = 2
	// firstAgain is after what time a node is asked again to give back what it may have granted, once maxAgain is used up; after twice as long each time, up to
	// the TTL.
	firstAgain = 20 * time.Millisecond
	// late is for how long a claim that was abandoned while it was on its way is remembered at the nodes, in case it arrives.
	late = time.Minute
)

// Answered implements redisscript.Answer.
func (c *claim) Answered(number int, r redisscript.Reply) {
	k, i, round := parseCall(number)
	c.mu.Lock()
	s := &c.seats[i]
	switch k {
	case callClaim:
		s.flying--
		s.loose = s.loose || r.Err != nil && !certain(r.Err)
		if s.round == round && s.state == seatAsked {
			c.claimed(i, r)
		}
	case callGiveBack:
		s.backs--
		s.tainted = s.tainted || r.Err != nil && !certain(r.Err)
		if s.round == round {
			s.gaveBack(r)
		}
		if s.round == round && r.Err != nil && s.state == seatUnknown {
			if s.again() {
				s.backs++
				c.mu.Unlock()
				c.giveBackAt(i, round)
				return
			}
			c.giveBackLater(i, round)
		}
	case callRelease:
		s.maybe = s.maybe || r.Err != nil && !errors.Is(r.Err, driver.ErrUnavailable) // that it did not arrive is certain of ErrUnavailable only
		if r.Err == redisscript.ErrOtherConnection || r.Err != nil && s.again() {
			s.loose = s.loose || r.Err == redisscript.ErrOtherConnection // what was asked for before may arrive by the old one
			c.mu.Unlock()
			c.abandonAt(i)
			return
		}
		c.released(i, r)
	case callAbandon:
		if r.Err != nil && s.again() {
			c.mu.Unlock()
			c.abandonAt(i)
			return
		}
		if r.Err == nil {
			s.loose = false
			r.Value = nil // whether it had the lock is not told
			s.maybe = true
		}
		c.released(i, r)
	}
	c.look()
	c.mu.Unlock()
}

// claimed notes what node i said to a claim. The mutex is held.
func (c *claim) claimed(i int, r redisscript.Reply) {
	s := &c.seats[i]
	if r.Err != nil {
		s.failed(r.Err)
		return
	}
	status, ms, flag := int64(granted), int64(0), int64(0)
	switch v := r.Value.(type) {
	case int64:
		ms = v
	case []any:
		status = -1
		if len(v) > 0 {
			status, _ = v[0].(int64)
		}
		if len(v) > 2 {
			ms, _ = v[1].(int64)
			flag, _ = v[2].(int64)
		}
		if len(v) > 3 {
			s.holder, _ = v[3].(string)
		}
	default:
		status = -1
	}
	s.ms, s.flag = ms, flag > 0
	switch status {
	case granted:
		c.b.heardClock(i, ms)
		if s.mayLose() {
			s.failed(c.b.unsafe(i))
			break
		}
		s.state = seatGranted
	case held:
		s.state, c.heard = seatHeld, time.Now()
	case abandoned:
		s.state = seatGone
	default:
		s.failed(fmt.Errorf("%w: the script replied %v", driver.ErrUnknown, r.Value))
	}
}

// What claim.lua replies first.
const (
	held      = 0
	granted   = 1
	abandoned = 2
)

// failed notes that a request failed.
func (s *seat) failed(err error) {
	s.err = err
	s.state = seatUnknown
	if certain(err) {
		s.state = seatFailed
	}
}

// mayLose says that a request to give back an earlier vote may still arrive: it would take this one back too. The mutex is held.
func (s *seat) mayLose() bool { return s.backs > 0 || s.tainted }

// unsafe is the error of a vote that mayLose.
func (b *Backend) unsafe(i int) error {
	return fmt.Errorf("%w: %s: a request to give back an earlier vote may still arrive", driver.ErrUnknown, b.nodes[i].addr)
}

// again says that a request to give up what the node has, whose connection broke, is to be made once more: the node may be well, and only a
// connection have ended.
func (s *seat) again() bool {
	s.tries = min(s.tries+1, math.MaxUint8)
	return s.tries <= maxAgain
}

// giveBackAt asks node i to give back what it may have granted in round. It is counted in backs.
func (c *claim) giveBackAt(i int, round int32) {
	c.b.nodes[i].line.Call(redisscript.QuorumRelease, c.keys[:], []string{c.value, ""}, redisscript.Terms{}, c, callGiveBack.number(i, round))
}

// giveBackLater is giveBackAt when the node may be reached again, unless the claim has been made anew by then. The mutex is held.
func (c *claim) giveBackLater(i int, round int32) {
	pause := firstAgain << min(c.seats[i].tries-maxAgain-1, 30)
	if pause > c.Req.TTL {
		return // by which it is gone
	}
	time.AfterFunc(pause, func() {
		c.mu.Lock()
		s := &c.seats[i]
		still := s.round == round && s.state == seatUnknown && !c.gaveUp
		if still {
			s.backs++
		}
		c.mu.Unlock()
		if still {
			c.giveBackAt(i, round)
		}
	})
}

// gaveBack notes what a node said when it was to take back what it had granted.
func (s *seat) gaveBack(r redisscript.Reply) {
	switch {
	case r.Err == nil:
		s.state = seatNone
	case s.state == seatGranted, s.state == seatNone: // or it was not waited for
		s.state, s.err, s.loose = seatUnknown, r.Err, true
	}
}

// count is how many seats are in a state.
func (c *claim) count(st state) int {
	n := 0
	for i := range c.seats {
		if c.seats[i].state == st {
			n++
		}
	}
	return n
}

// countFreed is how many seats have freed in this way.
func (c *claim) countFreed(way freed) int {
	n := 0
	for i := range c.seats {
		if c.seats[i].freed == way {
			n++
		}
	}
	return n
}

// countEnded is how many seats certainly have nothing of the claim any more.
func (c *claim) countEnded() int { return len(c.seats) - c.countFreed(freedNot) }

// countOpen is how many seats have something of the claim, or may have, or may still get it.
func (c *claim) countOpen() int {
	n := 0
	for i := range c.seats {
		if s := &c.seats[i]; s.state == seatGranted || s.state == seatUnknown || s.flying > 0 {
			n++
		}
	}
	return n
}

// givingBack says whether a vote that was granted is being given back, without an answer. The mutex is held.
func (c *claim) givingBack() bool {
	for i := range c.seats {
		if s := &c.seats[i]; s.backs > 0 && (s.state == seatGranted || s.state == seatUnknown) {
			return true
		}
	}
	return false
}

// asking says whether a request to release or to abandon is without an answer. The mutex is held.
func (c *claim) asking() bool {
	for i := range c.seats {
		if c.seats[i].asking {
			return true
		}
	}
	return false
}

// look wakes who waits for the phase to end, if it has. The mutex is held.
func (c *claim) look() {
	if !c.ready && c.over() {
		c.ready = true
		select {
		case c.changed <- struct{}{}:
		default:
		}
	}
}

// over says whether nothing more can change what the phase is about. The mutex is held.
func (c *claim) over() bool {
	q := c.b.quorum
	switch c.phase {
	case claiming:
		got, open := c.count(seatGranted), c.count(seatAsked)
		answered := got + c.count(seatHeld)
		return c.gaveUp || open == 0 || got >= q || got+open < q && (answered >= q || answered+open < q)
	case givingBack:
		return !c.givingBack()
	case releasing:
		return c.countFreed(freedHere) >= q || c.countFreed(freedBefore) >= q || !c.asking()
	case abandoning:
		return c.countEnded() >= q || !c.asking()
	}
	return false
}
