package file

import (
	"errors"
	"net/url"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lockurl"
)

func init() {
	lockport.Register(lockport.Scheme{
		Name:         "file",
		Open:         open,
		Example:      "file:///var/lib/myservice/locks",
		Capabilities: capabilities,
	})
}

func open(u *url.URL, _ lockport.SchemeOptions) (driver.Backend, error) {
	if u.Host != "" || u.Opaque != "" || u.User != nil || u.Fragment != "" {
		return nil, errors.New(`a file URL is "file:" or "file:///folder", with an absolute path`)
	}
	if err := lockurl.Of(u).Err(); err != nil {
		return nil, err
	}
	return NewBackend(Options{Dir: u.Path})
}
