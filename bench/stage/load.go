package stage

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/faults"
)

// Load is what servers have done until an instant.
type Load struct {
	At faults.Instant
	// Requests is how many have gone through the links: what one read of them returned, which is a command, or several that were sent at once.
	Requests int64
	// Connections are those that go through the links now.
	Connections int64
	// Commands is the servers' own count, on Redis with what scripts call; 0 where there is none.
	Commands int64
	// CPU is the processor time of all their processes; 0 where the system does not say.
	CPU time.Duration
	// Memory is what the servers have in memory, by their own account or else by the system's; 0 where neither says.
	Memory int64
}

// Links are proxies before the servers of a stage, which count requests.
type Links struct {
	URL   string
	group faultproxy.Group
}

// Link puts proxies before the servers. The caller must Close them.
func (s *Stage) Link() (*Links, error) {
	url, group, err := faultproxy.ForURL(s.URL)
	if err != nil {
		return nil, err
	}
	if len(group) == 0 {
		return nil, errors.New("no proxy can stand before the servers")
	}
	return &Links{url, group}, nil
}

// Close ends all connections that go through the links.
func (l *Links) Close() { l.group.Close() }

// Load is what has been done until now. links may be nil.
func (s *Stage) Load(ctx context.Context, links *Links) (l Load, err error) {
	for _, n := range s.nodes {
		cpu, memory := tree(n.Pid())
		l.CPU, l.Memory = l.CPU+cpu, l.Memory+memory
	}
	if s.count != nil {
		if l.Commands, err = s.count(ctx); err != nil {
			return l, err
		}
	}
	if s.memory != nil {
		if l.Memory, err = s.memory(ctx); err != nil {
			return l, err
		}
	}
	if links != nil {
		l.Requests = links.group.Requests()
		links.group.Each(func(p *faultproxy.Proxy) { l.Connections += int64(p.Conns()) })
	}
	l.At = faults.Now()
	return l, nil
}

// CountsCommands says whether [Load].Commands is known.
func (s *Stage) CountsCommands() bool { return s.count != nil }
