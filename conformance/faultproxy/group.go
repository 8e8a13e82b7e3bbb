package faultproxy

import (
	"context"
	"errors"
	"time"

	"github.com/lockport/lockport/conformance"
)

// Group is the proxies before the servers of one backend, in order.
type Group []*Proxy

// Faults returns the network faults of the suite: Restore, Sever, Cut, Freeze, Delay, DropReply, CutAfter, Conns and Requests.
// Each acts on all proxies of the group. The other fields are nil, for you to fill in.
//
// isOp says whether a request is of the kind op, and must neither block nor keep its argument. If it is nil, DropReply
// returns errors.ErrUnsupported.
//
// With several proxies DropReply and CutAfter happen once at each, and close their channel when they have happened at every one.
// That fits a quorum, whose client asks every server. If your client asks one of several servers, set both fields to nil. Requests is
// that of the busiest proxy, so a request to all servers counts once.
func (all Group) Faults(isOp func(op conformance.Op, request []byte) bool) conformance.Faults {
	each := func(f func(*Proxy)) func(context.Context) error {
		return func(context.Context) error { all.Each(f); return nil }
	}
	return conformance.Faults{
		Restore: func() { all.Each((*Proxy).Restore) },
		Sever:   each((*Proxy).Cut),
		Cut:     each((*Proxy).KillConns),
		Freeze:  each((*Proxy).Freeze),
		Delay: func(_ context.Context, d time.Duration) error {
			all.Each(func(p *Proxy) { p.Delay((d + 1) / 2) }) // there and back
			return nil
		},
		DropReply: func(_ context.Context, op conformance.Op) (<-chan struct{}, error) {
			if isOp == nil {
				return nil, errors.ErrUnsupported
			}
			return all.trap(1, dropReply, func(request []byte) bool { return isOp(op, request) }), nil
		},
		CutAfter: func(_ context.Context, n int) (<-chan struct{}, error) { return all.trap(n, cutAfter, nil), nil },
		Conns: func(context.Context) (n int, _ error) {
			all.Each(func(p *Proxy) { n += p.Conns() })
			return n, nil
		},
		Requests: func(context.Context) (most int64, _ error) {
			all.Each(func(p *Proxy) { most = max(most, p.Requests()) })
			return most, nil
		},
	}
}

// Lanes puts n proxies before one server, so that cases with faults run concurrently. Use the first lane for Config.Target and
// Config.Faults, and the others for Config.Lanes. isOp is as for [Group.Faults]. end closes the proxies.
func Lanes(n int, server string, isOp func(op conformance.Op, request []byte) bool) (lanes []conformance.Lane, end func(), err error) {
	var all Group
	for range n {
		p, err := New(server)
		if err != nil {
			all.Close()
			return nil, nil, err
		}
		all = append(all, p)
		lanes = append(lanes, conformance.Lane{Target: p.Addr(), Faults: Group{p}.Faults(isOp)})
	}
	return lanes, all.Close, nil
}

// Each calls f with each proxy.
func (all Group) Each(f func(*Proxy)) {
	for _, p := range all {
		f(p)
	}
}

// Close closes every proxy.
func (all Group) Close() {
	all.Each(func(p *Proxy) { _ = p.Close() })
}

// Requests is the sum of the proxies' [Proxy.Requests].
func (all Group) Requests() (sum int64) {
	all.Each(func(p *Proxy) { sum += p.Requests() })
	return sum
}
