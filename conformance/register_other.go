//go:build !unix

package conformance

import "errors"

// Processes share no memory here.
func mapRegister(string) (r *register, unmap func(), err error) {
	return nil, nil, errors.ErrUnsupported
}
