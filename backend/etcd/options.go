package etcd

import (
	"errors"
	"fmt"
	"unicode/utf8"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Options are the options of the backend. The zero value is useful.
type Options struct {
	// Prefix begins the keys of every lock. Clients meet if theirs is the same. Default: "lockport/".
	Prefix string
	// NoPrefix makes the keys begin with the name itself, to meet clients of other programs at keys that they have chosen.
	NoPrefix bool
}

// prepare checks o and says where locks are.
func (o Options) prepare() (layout, error) {
	switch {
	case o.NoPrefix && o.Prefix != "":
		return layout{}, fmt.Errorf("the options NoPrefix and Prefix %q exclude each other", o.Prefix)
	case !utf8.ValidString(o.Prefix):
		return layout{}, fmt.Errorf("the option Prefix %q is not valid UTF-8", o.Prefix)
	case o.Prefix == "" && !o.NoPrefix:
		o.Prefix = defaultPrefix
	}
	return layout{prefix: o.Prefix}, nil
}

var (
	errNoClient     = errors.New("the client is nil")
	errNoConnection = errors.New("the client has no connection of its own: make it with clientv3.New")
)

func checkClient(client *clientv3.Client) error {
	switch {
	case client == nil:
		return errNoClient
	case client.ActiveConnection() == nil:
		return errNoConnection
	}
	return nil
}
