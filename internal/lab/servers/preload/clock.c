// A clock offset for one process, to be preloaded (LD_PRELOAD). The file that LOCKPORT_CLOCK names holds the offset in nanoseconds, as an int64.
// The code calls the kernel directly: looking up the replaced functions would allocate. An allocator that asks for the time while it starts would
// then deadlock.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t none = 0;
static const volatile int64_t *ahead = &none;

__attribute__((constructor)) static void attach(void) {
	const char *file = getenv("LOCKPORT_CLOCK");
	int fd = file ? open(file, O_RDONLY | O_CLOEXEC) : -1;
	if (fd < 0) return;
	void *page = mmap(NULL, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
	if (page != MAP_FAILED) ahead = page;
	close(fd);
}

int clock_gettime(clockid_t clock, struct timespec *t) {
	const int64_t second = 1000000000;
	int failed = syscall(SYS_clock_gettime, clock, t);
	if (failed || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return failed;
	int64_t now = t->tv_sec * second + t->tv_nsec + *ahead;
	t->tv_sec = now / second;
	t->tv_nsec = now % second;
	return 0;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	(void)zone;
	struct timespec now;
	if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return 0;
}

time_t time(time_t *t) {
	struct timespec now;
	if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
	if (t) *t = now.tv_sec;
	return now.tv_sec;
}
