// Package file keeps locks with flock(2) on files in a folder: among the processes of one machine, without a server. Linux, macOS and
// FreeBSD.
//
// # Guarantees
//
//   - Exclusion among all processes that use the same folder, and among all Backends in one process. A lock ends when it is
//     released or when its process has died, however it died: the kernel frees it at once, and a waiter has it within 30 ms. A process
//     that hangs, is stopped, or sleeps with its machine keeps its locks: there is no TTL, and nothing to renew.
//   - Tokens rise for each name, also when a process was killed, the machine crashed, or the lock file was removed or
//     damaged. Where a file is lost and the clock is set back to before its last use as well, they do not; where a file is damaged and
//     the clock is set back, the name is refused.
//   - A holder whose file is removed or replaced is told within half a second. Somebody else may hold the name meanwhile: the
//     token protects.
//   - Child processes do not inherit a lock, unless they are given the file (Lock.As with a **os.File). Then they share it.
//   - On Linux, the process that waits next is not overtaken by those that wait behind it, or come back, unless it is stopped.
//     On macOS and FreeBSD a busy process can keep all others from the lock.
//   - Readers (lockport.Shared), on Linux: they have the name together, and never beside a writer. A reader that comes does not go before a writer that
//     is next. Permits (lockport.Permits): never more than n are held, and another n is refused while one is. Both end as locks do.
//   - A claim that waits costs one descriptor, one that is held too, and a reader's two. No goroutine runs; one timer does while something is held: it looks at
//     the files four times a second.
//
// # Non-guarantees
//
//   - Nothing among machines. Folders on NFS, SMB, 9p and other shared file systems are refused, not supported.
//   - No order among waiters, save that one is next, and a single attempt (TryAcquire) does not wait for its turn.
//   - Other programs that may write to the folder can remove lock files. The folder must be writable for nobody else.
//   - No readers on macOS and FreeBSD, where nothing would let a writer in between them.
//   - Nobody else's lock can be ended by force: end its process, which Inspect names if it is lockport's.
//
// # URL
//
// "file:///folder", an absolute path that must exist, or "file:" for DefaultDir. There are no parameters but ttl, which has no
// effect.
//
// # Server requirements
//
// A local file system with flock(2), 2 KB of it for each name, for each permit and for each reader at a time (files that nobody has used for
// 7 days are removed), and a descriptor for each lock that
// is held or waited for. All processes must run as the same user.
//
// # Example
//
//	client, err := file.New(file.Options{Dir: "/var/lib/myservice/locks"})
//	…
//	lock, err := client.Acquire(ctx, "nightly-report")
package file
