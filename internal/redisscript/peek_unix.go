//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package redisscript

import "syscall"

// peek looks at a connection without reading from it. One goroutine at a time may use it.
type peek struct {
	raw  syscall.RawConn
	buf  [1]byte
	err  error
	look func(fd uintptr) bool
}

func newPeek(raw syscall.RawConn) *peek {
	p := &peek{raw: raw}
	p.look = func(fd uintptr) bool {
		_, _, p.err = syscall.Recvfrom(int(fd), p.buf[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		return true
	}
	return p
}

// quiet says that the server has neither closed the connection nor sent anything. It does not wait.
func (p *peek) quiet() bool {
	return p.raw.Read(p.look) == nil && (p.err == syscall.EAGAIN || p.err == syscall.EWOULDBLOCK)
}
