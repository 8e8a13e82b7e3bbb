// Package file implements locks among the processes of one machine, with flock(2) on files in a folder and without a server. Linux, macOS and
// FreeBSD.
//
// # Guarantees
//
//   - Exclusion among all processes that use the same folder, and among all Backends in one process. A lock ends when it is released or when its
//     process dies, in whatever way: the kernel frees it at once, and a waiter has it within 30 ms. A process that hangs, is stopped, or sleeps with
//     its machine keeps its locks: there is no TTL, and nothing to renew.
//   - Tokens rise for each name, also after a process was killed, the machine crashed, or the lock file was removed or damaged. The exception: the
//     clock was also set back and is behind the last token. Then tokens of a lost file do not rise, nor those of a damaged file that was used since.
//     A name whose damaged file was not used since is refused.
//   - A holder whose file is removed or replaced is told within half a second. Another client may hold the name meanwhile: the token protects.
//   - Child processes do not inherit a lock, unless they get the file (Lock.As with a **os.File). Then they share it.
//   - On Linux, returning holders do not overtake the process that waits next, and later waiters seldom do: they try once in 250 ms, in case
//     that process is stopped. On macOS and FreeBSD, a busy process can keep all others from the lock.
//   - Readers (lockport.Shared), on Linux: they share the name, and never with a writer. A new reader does not overtake a writer that is next.
//     Permits (lockport.Permits): at most n are held, and another n is refused while one is. Both end as locks do.
//   - A waiting or held claim costs one descriptor, a reader's two. No goroutine runs. While something is held, a timer checks the files four times a
//     second.
//
// # Non-guarantees
//
//   - Nothing among machines. Folders on NFS, SMB, 9p and other shared file systems are refused, not supported.
//   - No order among waiters, except that one is next. A single attempt (TryAcquire) does not wait for its turn.
//   - Programs that may write to the folder can remove lock files. The folder must not be writable for other users.
//   - No readers on macOS and FreeBSD, where they could keep writers out for ever.
//   - No forced release: end the holder's process, which Inspect names if it is lockport's.
//
// # URL
//
// "file:///folder", an absolute path that must exist, or "file:" for DefaultDir. The only parameter is ttl, which has no effect.
//
// # Server requirements
//
// A local file system with flock(2), and a descriptor for each held or awaited lock. Each name, permit and concurrent reader takes 2 KB; lock files
// unused for 7 days are removed. All processes must run as the same user.
package file
