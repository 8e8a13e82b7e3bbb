package hazards

import (
	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/internal/lab/play"
)

// apart does something to all links of workers, and returns what ends it, with what was on its way lost. What it is, the timeline says.
func (p *trial) apart(what string, how func(*faultproxy.Proxy), w ...*play.Worker) (back func() error) {
	var seen []func()
	for _, worker := range w {
		seen = append(seen, p.cutOff(worker, what))
		for _, l := range worker.Endpoint.Links {
			how(l)
		}
	}
	return func() error {
		for i, worker := range w {
			for _, l := range worker.Endpoint.Links {
				l.DropHeld()
			}
			seen[i]()
		}
		return nil
	}
}

// silence has the network of a worker fall silent, until end is called.
func (p *trial) silence(w *play.Worker) (end func()) {
	back := p.apart("silent", (*faultproxy.Proxy).Freeze, w)
	return func() { _ = back() }
}
