package costs

import "time"

// plan is how long, and how often, things are measured.
type plan struct {
	// turns are how often cycles and hand-offs are measured, each time with bare round trips; in each turn there are at most so many samples, taken for
	// at most so long.
	turns       int
	cycles      int
	cycleTime   time.Duration
	pings       int
	pingTime    time.Duration
	handOffs    int
	clients     []int // of contention
	contentions int   // turns of it
	contendTime time.Duration
	takeovers   int   // kills
	failovers   int   // kills
	waiters     []int // goroutines
	waitTime    time.Duration
}

var quick = plan{
	turns:  5,
	cycles: 1000, cycleTime: 150 * time.Millisecond,
	pings: 1000, pingTime: 50 * time.Millisecond,
	handOffs: 20,
	clients:  []int{2, 8, 64}, contentions: 3, contendTime: 500 * time.Millisecond,
	takeovers: 1,
	failovers: 1,
	waiters:   []int{1, 30}, waitTime: 2 * time.Second,
}

var full = plan{
	turns:  11,
	cycles: 2000, cycleTime: 400 * time.Millisecond,
	pings: 1000, pingTime: 100 * time.Millisecond,
	handOffs: 50,
	clients:  []int{2, 4, 8, 16, 32, 64}, contentions: 5, contendTime: 800 * time.Millisecond,
	takeovers: 5,
	failovers: 5,
	waiters:   []int{1, 30, 300}, waitTime: 3 * time.Second,
}

// processes is how many clients' processes there are at most.
const processes = 4
