package redlock

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/lockport/lockport/driver"
)

// failure is why a node does not serve.
type failure struct{ addr, why string }

// failed puts an error of the node into few words, without its address.
func (n *node) failed(err error) failure {
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" && dial.Err != nil { // whose text repeats the address
		return failure{n.addr, fmt.Sprintf("cannot be reached (%v)", dial.Err)}
	}
	return failure{n.addr, strings.TrimPrefix(plain(err), n.addr+": ")}
}

// slow says that the node has not answered.
func (n *node) slow() failure { return failure{n.addr, "no answer in time"} }

// missing says that too few nodes serve, and why.
func (b *Backend) missing(all []failure) string {
	return fmt.Sprintf("%d of %d nodes do not serve, and %d are needed: %s", len(all), len(b.nodes), b.quorum, together(all))
}

// together names the nodes that fail for one reason together.
func together(all []failure) string {
	var reasons []string
	nodes := make(map[string][]string)
	for _, f := range all {
		if !slices.Contains(reasons, f.why) {
			reasons = append(reasons, f.why)
		}
		nodes[f.why] = append(nodes[f.why], f.addr)
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(nodes[why], ", ") + ": " + why
	}
	return strings.Join(reasons, "; ")
}

// plain is the text of err without its class: an error has one class only.
func plain(err error) string {
	if err == nil {
		return "no answer"
	}
	text := err.Error()
	for _, class := range []error{driver.ErrUnavailable, driver.ErrRefused, driver.ErrUnknown} {
		text = strings.TrimPrefix(text, class.Error()+": ")
	}
	return text
}
