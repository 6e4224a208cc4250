/* events.c SECONDS - a producer passes events to a consumer, in batches as batch.h decides.
 *
 * Events are due at fixed times, whatever the threads do: 10,000 a second, then 300, in turns of a quarter second.
 * Prints one line: fast_events fast_late slow_events slow_late received wakeups elapsed_ns.
 * fast, slow: of the events that were due at the high rate and at the low one; late: came more than the deadline
 * after they were due; wakeups: how often the consumer blocked. */
#define _GNU_SOURCE
#include "batch.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { MOST_WAITING = 4096 };
static const int64_t DEADLINE_NS = 10000000, TURN_NS = 250000000, LOOK_NS = 500000;

static int pipe_ends[2];
static int64_t start_ns;
static long events[2], late[2], received, wakeups; /* of events and late ones: fast, slow */

static int64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void sleep_until(int64_t ns)
{
    struct timespec t = {ns / 1000000000, ns % 1000000000};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

/* 1 while the events that are due come at the low rate, 0 while they come at the high one. */
static int is_slow(int64_t due_ns) { return (due_ns - start_ns) / TURN_NS % 2; }

/* A batch on the pipe: how many events, then when each was due. */
static void send(int64_t *due, int count)
{
    int64_t size = count;
    if (write(pipe_ends[1], &size, sizeof size) != sizeof size)
        exit(1);
    /* Longer than the pipe writes in one piece: whoever reads it reads on until it has all. */
    for (size_t done = 0; done < count * sizeof *due;) {
        ssize_t wrote = write(pipe_ends[1], (char *)due + done, count * sizeof *due - done);
        if (wrote <= 0)
            exit(1);
        done += (size_t)wrote;
    }
}

static void get(void *into, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t part = read(pipe_ends[0], (char *)into + done, size - done);
        if (part <= 0)
            exit(1);
        done += (size_t)part;
    }
}

static void *consumer(void *unused)
{
    static int64_t due[MOST_WAITING];
    for (;;) {
        int64_t count;
        get(&count, sizeof count);
        if (count == 0)
            break;
        get(due, (size_t)count * sizeof *due);
        int64_t now = now_ns();
        for (int64_t n = 0; n < count; n++)
            late[is_slow(due[n])] += now - due[n] > DEADLINE_NS;
        received += count;
    }
    struct rusage used;
    getrusage(RUSAGE_THREAD, &used);
    wakeups = used.ru_nvcsw;
    return unused;
}

int main(int argc, char **argv)
{
    long seconds = argc > 1 ? atol(argv[1]) : 0;
    if (seconds < 1 || seconds > 10) {
        fprintf(stderr, "usage: events SECONDS, 1 to 10\n");
        return 2;
    }
    alarm(60);
    prctl(PR_SET_TIMERSLACK, 1);
    start_ns = now_ns();
    pthread_t reader;
    if (pipe(pipe_ends) || pthread_create(&reader, NULL, consumer, NULL))
        return 1;
    static int64_t waiting[MOST_WAITING];
    int count = 0;
    int64_t end = start_ns + seconds * 1000000000LL, next = start_ns;
    while (next < end || count) {
        bool last = next >= end;
        int64_t look = now_ns() + LOOK_NS;
        sleep_until(!last && next < look ? next : look);
        int64_t now = now_ns();
        while (!last && next <= now && count < MOST_WAITING - 1) {
            waiting[count++] = next;
            events[is_slow(next)]++;
            next += is_slow(next) ? 1000000000 / 300 : 100000;
            if (send_now(count, now - waiting[0], DEADLINE_NS)) {
                send(waiting, count);
                count = 0;
            }
            last = next >= end;
        }
        if (count && (count >= MOST_WAITING - 1 || now > end + 1000000000 ||
                      send_now(count, now_ns() - waiting[0], DEADLINE_NS))) {
            send(waiting, count);
            count = 0;
        }
    }
    int64_t elapsed = now_ns() - start_ns;
    send(waiting, 0); /* the end */
    pthread_join(reader, NULL);
    printf("%ld %ld %ld %ld %ld %ld %lld\n", events[0], late[0], events[1], late[1], received, wakeups,
           (long long)elapsed);
    return 0;
}
