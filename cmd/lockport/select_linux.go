package main

import "syscall"

// selectInput is select(2) on standard input alone.
func selectInput(set *syscall.FdSet, limit *syscall.Timeval) error {
	_, err := syscall.Select(1, set, nil, nil, limit)
	return err
}
