/* LD_PRELOAD: the n-th of some calls fails, once shim_arm() was called; or the clock of day jumps.
 *
 * Only the process that armed it is meant: what it starts begins unarmed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static const char *which = "";
static int until, why;
static long step_s;

/* kind: write, open, pipe, mmap or fork; the n-th of them from now on fails once with this errno. */
void shim_arm(const char *kind, int n, int error) { which = strdup(kind), why = error, until = n; }
void shim_step(long seconds) { step_s = seconds; }

static int fails(const char *kind)
{
	if (strcmp(kind, which) || __atomic_sub_fetch(&until, 1, __ATOMIC_RELAXED) != 0)
		return 0;
	errno = why;
	return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *data, size_t size) { return fails("write") ? -1 : REAL(write)(fd, data, size); }
int pipe2(int fds[2], int flags) { return fails("pipe") ? -1 : REAL(pipe2)(fds, flags); }
pid_t fork(void) { return fails("fork") ? -1 : REAL(fork)(); }
void *mmap(void *at, size_t size, int prot, int flags, int fd, off_t offset)
{
	return fails("mmap") ? MAP_FAILED : REAL(mmap)(at, size, prot, flags, fd, offset);
}

#define OPEN(name)                                                    \
	int name(const char *path, int flags, ...)                    \
	{                                                             \
		va_list rest;                                         \
		va_start(rest, flags);                                \
		mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
		va_end(rest);                                         \
		return fails("open") ? -1 : REAL(name)(path, flags, mode); \
	}
OPEN(open)
OPEN(open64)

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int done = REAL(clock_gettime)(clock, now);
	if (clock == CLOCK_REALTIME)
		now->tv_sec += step_s;
	return done;
}
