// SPDX-License-Identifier: Apache-2.0

// Stands between a server and the wall clock of the system: what the server reads is
// ahead by the nanoseconds in a file, which a test changes while the server runs.
//
// It does what libfaketime does, which hangs in servers with jemalloc: that allocator
// asks for the time before a library can look up the function it replaces. Here the
// system is asked directly, and nothing is allocated.

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead;

__attribute__((constructor)) static void begin(void) {
	const char *path = getenv("CLOCK_AHEAD_FILE");
	int fd = path ? open(path, O_RDONLY) : -1;
	if (fd < 0)
		abort();
	void *p = mmap(0, sizeof *ahead, PROT_READ, MAP_SHARED, fd, 0);
	if (p == MAP_FAILED)
		abort();
	ahead = p;
}

int clock_gettime(clockid_t id, struct timespec *t) {
	long r = syscall(SYS_clock_gettime, id, t);
	if (r == 0 && ahead && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
		int64_t n = t->tv_nsec + *ahead % 1000000000;
		t->tv_sec += *ahead / 1000000000 + (n >= 1000000000) - (n < 0);
		t->tv_nsec = (n + 1000000000) % 1000000000;
	}
	return r;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone) {
	struct timespec now;
	(void)zone;
	int r = clock_gettime(CLOCK_REALTIME, &now);
	t->tv_sec = now.tv_sec;
	t->tv_usec = now.tv_nsec / 1000;
	return r;
}

time_t time(time_t *t) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	if (t)
		*t = now.tv_sec;
	return now.tv_sec;
}
