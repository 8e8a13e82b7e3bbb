//go:build !unix

package conformance

import "errors"

// Processes cannot share memory here.
func mapRegister(string) (r *register, unmap func(), err error) {
	return nil, nil, errors.ErrUnsupported
}
