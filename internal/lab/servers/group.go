package servers

import (
	"errors"
	"fmt"
)

// node is one server of a group.
type node interface {
	Addr() string
	Log() string
	Close() error
}

func addrs[N node](nodes []N) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, n.Addr())
	}
	return all
}

func logs[N node](nodes []N) string {
	var all string
	for _, n := range nodes {
		all += fmt.Sprintf("--- %s\n%s", n.Addr(), n.Log())
	}
	return all
}

func closeAll[N node](nodes []N) error {
	var errs []error
	for _, n := range nodes {
		errs = append(errs, n.Close())
	}
	return errors.Join(errs...)
}
