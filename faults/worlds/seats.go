package worlds

import (
	"errors"
	"strings"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/faults"
)

// seat makes a seat with one proxy before each of addrs; url makes what the worker opens of the proxies' addresses, which come in the same
// order. Who uses the seat closes its links.
func seat(addrs []string, url func(addrs []string) string) (*faults.Seat, error) {
	s := &faults.Seat{}
	var via []string
	for _, addr := range addrs {
		link, err := faultproxy.New(addr)
		if err != nil {
			return nil, errors.Join(err, closeAll(s.Links...))
		}
		s.Links = append(s.Links, link)
		via = append(via, link.Addr())
	}
	s.URL = url(via)
	return s, nil
}

// listURL is a URL that names all servers before its path: listURL("redlock://", "/0") makes "redlock://a:1,b:2/0".
func listURL(before, after string) func(addrs []string) string {
	return func(addrs []string) string { return before + strings.Join(addrs, ",") + after }
}

// closeAll closes all of them, whatever the others say.
func closeAll[C interface{ Close() error }](all ...C) error {
	var errs []error
	for _, one := range all {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}
