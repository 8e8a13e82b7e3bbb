package redisscript

// fifo is calls in the order in which their replies will come.
type fifo struct {
	ring  []lineCall
	head  int
	count int
	fresh int // at the end, not written yet
}

func (f *fifo) len() int { return f.count }

func (f *fifo) first() *lineCall { return &f.ring[f.head] }

func (f *fifo) push(c lineCall) {
	if f.count == len(f.ring) {
		ring := make([]lineCall, max(16, 2*f.count))
		n := copy(ring, f.ring[f.head:])
		copy(ring[n:], f.ring[:f.head])
		f.ring, f.head = ring, 0
	}
	f.ring[(f.head+f.count)%len(f.ring)] = c
	f.count++
	f.fresh++
}

// written notes that all calls have been given to the socket.
func (f *fifo) written() {
	for i := f.count - f.fresh; i < f.count; i++ {
		f.ring[(f.head+i)%len(f.ring)].written = true
	}
	f.fresh = 0
}

func (f *fifo) pop() lineCall {
	c := f.ring[f.head]
	f.ring[f.head] = lineCall{}
	f.head = (f.head + 1) % len(f.ring)
	f.count--
	f.fresh = min(f.fresh, f.count)
	return c
}

func (f *fifo) takeAll() []lineCall {
	all := make([]lineCall, 0, f.count)
	for f.count > 0 {
		all = append(all, f.pop())
	}
	f.fresh = 0
	return all
}
