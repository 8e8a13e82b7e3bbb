package file

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
)

func init() {
	lockport.Register(lockport.Scheme{
		Name:         "file",
		Open:         open,
		Example:      "file:///var/lib/myservice/locks",
		Capabilities: capabilities,
	})
}

// open makes a backend of a URL.
func open(u *url.URL, _ lockport.SchemeOptions) (driver.Backend, error) {
	if u.Host != "" || u.Opaque != "" || u.User != nil || u.Fragment != "" {
		return nil, errors.New(`a file URL is "file:" or "file:///folder", with an absolute path`)
	}
	for p := range u.Query() {
		return nil, fmt.Errorf("unknown parameter %q in a file URL; it has none but ttl", p)
	}
	b, err := NewBackend(Options{Dir: u.Path})
	if err != nil {
		return nil, err
	}
	return b, nil
}
