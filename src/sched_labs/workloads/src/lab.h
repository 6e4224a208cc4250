/* lab.h - what every workload of the book shares: a way to start together, a clock, records, and an end.
 *
 * A workload talks in lines of plain text, so that you can run it by hand:
 *
 *     $ ./pingpong --by pipe --between threads
 *     ready tid=4711 tid=4712      its threads exist and wait; now they can be placed and watched
 *     go                           you type this (or the library writes it)
 *     block trial=0 ...            one record per line: a word, then key=value
 *     done
 *
 * It ends by itself when it is done.  It also ends, with all its processes, when its standard input is closed
 * or when its deadline passes: an experiment that is interrupted leaves nothing running.
 */
#ifndef LAB_H
#define LAB_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Says what failed and ends the workload with status 1. */
__attribute__((noreturn, format(printf, 1, 2))) static inline void lab_fail(const char *format, ...)
{
    int error = errno;
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    if (error)
        fprintf(stderr, ": %s", strerror(error));
    fputc('\n', stderr);
    exit(1);
}

/* The status of a workload that may not have as many threads as it was asked to: no failure of its own. */
#define LAB_NO_THREAD 11

/* Starts a thread, or says that there may not be another one (pids.max, RLIMIT_NPROC) and ends the workload. */
static inline pthread_t lab_thread(void *(*function)(void *), void *argument)
{
    pthread_t thread;
    int error = pthread_create(&thread, NULL, function, argument);
    if (error) {
        fprintf(stderr, "cannot start a thread: %s\n", strerror(error));
        exit(LAB_NO_THREAD);
    }
    return thread;
}

static inline int64_t lab_clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

/* Wall clock for intervals: monotonic, not adjusted by leaps, read without a system call on most machines. */
static inline int64_t lab_now_ns(void)
{
    return lab_clock_ns(CLOCK_MONOTONIC);
}

/* Sleeps until a point in time and not for a while: a schedule that is kept so does not drift, however late
 * each wake-up is. */
static inline void lab_sleep_until(int64_t ns)
{
    struct timespec until = {ns / 1000000000, ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

static inline pid_t lab_tid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

/* What the kernel has counted for the calling thread. */
struct lab_tally {
    int64_t cpu_ns;
    int64_t voluntary;   /* it gave the CPU up: it blocked */
    int64_t involuntary; /* it was taken off the CPU, or it yielded */
};

static inline struct lab_tally lab_tally_now(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return (struct lab_tally){lab_clock_ns(CLOCK_THREAD_CPUTIME_ID), usage.ru_nvcsw, usage.ru_nivcsw};
}

static inline struct lab_tally lab_tally_since(struct lab_tally before)
{
    struct lab_tally now = lab_tally_now();
    return (struct lab_tally){now.cpu_ns - before.cpu_ns, now.voluntary - before.voluntary,
                              now.involuntary - before.involuntary};
}

/* Memory that stays shared after fork(); zeroed; never freed, because the workload ends soon. */
static inline void *lab_shared(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        lab_fail("cannot map %zu bytes", bytes);
    return memory;
}

/* The process that watches standard input; see lab_watch_stdin(). */
static pid_t lab_watcher;

/* Starts a process that sleeps until standard input is closed, and then ends the whole process group.
 * A thread could do the same, but it would make every workload multi-threaded, and the system calls of a
 * multi-threaded process are dearer: the kernel then counts who uses a file each time it is used. */
static inline void lab_watch_stdin(void)
{
    pid_t parent = getpid();
    lab_watcher = fork();
    if (lab_watcher < 0)
        lab_fail("cannot fork");
    if (lab_watcher)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    close(STDOUT_FILENO); /* whoever reads our records must see their end */
    close(STDERR_FILENO);
    struct pollfd input = {.fd = STDIN_FILENO}; /* no events: poll() returns at a hang-up only */
    while (poll(&input, 1, -1) < 0 && errno == EINTR)
        ;
    kill(0, SIGKILL);
    _exit(1);
}

/* First thing in main().  The deadline ends the workload whatever it is doing. */
static inline void lab_begin(unsigned deadline_s)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getpgrp() != getpid())
        setpgid(0, 0); /* a process group of our own: ending it ends nobody else */
    alarm(deadline_s);
    lab_watch_stdin();
    setvbuf(stdout, NULL, _IOFBF, 1 << 20); /* records leave in large pieces, not in the middle of a measurement */
}

/* A child that ends well has done its part; one that is killed or fails would leave the others waiting for ever. */
static inline void lab_child_ended(int signal)
{
    (void)signal;
    static const char text[] = "a process of this workload was killed or failed\n";
    int error = errno, status;
    while (waitpid(-1, &status, WNOHANG) > 0)
        if (status) {
            ssize_t said = write(STDERR_FILENO, text, sizeof text - 1);
            (void)said;
            _exit(1);
        }
    errno = error;
}

/* fork() for a workload made of processes: the child ends when its parent does, and the parent when the child fails. */
static inline pid_t lab_fork(void)
{
    fflush(stdout);
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = lab_child_ended, .sa_flags = SA_RESTART | SA_NOCLDSTOP}, NULL);
    pid_t parent = getpid(), child = fork();
    if (child < 0)
        lab_fail("cannot fork");
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
    }
    return child;
}

/* Waits for the next line on standard input: the library says when a workload with several blocks goes on. */
static inline void lab_wait_for_a_line(void)
{
    char byte = 0;
    while (byte != '\n')
        if (read(STDIN_FILENO, &byte, 1) != 1)
            kill(0, SIGKILL); /* whoever started us has gone */
}

/* The barrier: names the threads that do the work, then waits for a line on standard input. */
static inline void lab_barrier(const pid_t *tids, int count)
{
    fputs("ready", stdout);
    for (int i = 0; i < count; i++)
        printf(" tid=%d", (int)tids[i]);
    putchar('\n');
    fflush(stdout);
    lab_wait_for_a_line();
}

/* Last thing in main(): every record is out.  Children are waited for, so that their CPU time is counted as ours. */
static inline int lab_done(void)
{
    puts("done");
    if (fflush(stdout))
        return 1;
    signal(SIGCHLD, SIG_DFL);
    kill(lab_watcher, SIGKILL);
    while (waitpid(-1, NULL, 0) > 0 || errno == EINTR)
        ;
    return 0;
}

/* A number from the command line that must lie in a range. */
static inline long lab_number(const char *option, const char *text, long least, long most)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || *end || end == text || value < least || value > most) {
        errno = 0;
        lab_fail("%s takes a number from %ld to %ld, not '%s'", option, least, most, text);
    }
    return value;
}

#endif
