//go:build unix

package conformance

import (
	"os"
	"syscall"
	"unsafe"
)

// mapRegister maps the register in a file into this process, and creates the file if it is missing. Call unmap after the last use.
func mapRegister(path string) (r *register, unmap func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	const size = int(unsafe.Sizeof(register{}))
	if err := f.Truncate(int64(size)); err != nil {
		return nil, nil, err
	}
	mem, err := syscall.Mmap(int(f.Fd()), 0, size, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return nil, nil, os.NewSyscallError("mmap", err)
	}
	// Its fields are atomics and need only alignment, which a page has.
	return (*register)(unsafe.Pointer(&mem[0])), func() { _ = syscall.Munmap(mem) }, nil
}
