/* queue.c THREADS ITEMS - threads that put ITEMS each into one queue under the lock of lock.h.
 *
 * Prints one line: items overlaps elapsed_ns switches cpu_ns.
 * overlaps: how often a thread found another one inside; anything but 0 means that the lock does not lock.
 *
 * It runs on two CPUs, so that the numbers mean the same on every machine: the more threads run at the same moment,
 * the more often any lock has to make one of them wait. */
#define _GNU_SOURCE
#include "lock.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { ROOM = 1024, MOST_THREADS = 64 };

static struct lock lock;
static pthread_barrier_t gate;
static long items_each;

/* Plain variables: only the lock protects them. */
static long queue[ROOM];
static volatile long items, inside, overlaps;

static void *producer(void *unused)
{
    pthread_barrier_wait(&gate);
    for (long n = 0; n < items_each; n++) {
        volatile long work = 0; /* makes the item: outside of the lock */
        for (int step = 0; step < 200; step++)
            work += step;
        lock_take(&lock);
        if (inside++)
            overlaps++;
        queue[items % ROOM] = work;
        items++;
        inside--;
        lock_give(&lock);
    }
    return unused;
}

/* Leaves this process the last two of its CPUs. */
static void use_two_cpus(void)
{
    cpu_set_t allowed, two;
    CPU_ZERO(&two);
    if (sched_getaffinity(0, sizeof allowed, &allowed))
        return;
    for (int cpu = CPU_SETSIZE - 1; cpu >= 0 && CPU_COUNT(&two) < 2; cpu--)
        if (CPU_ISSET(cpu, &allowed))
            CPU_SET(cpu, &two);
    sched_setaffinity(0, sizeof two, &two);
}

int main(int argc, char **argv)
{
    int threads = argc > 1 ? atoi(argv[1]) : 0;
    items_each = argc > 2 ? atol(argv[2]) : 0;
    if (threads < 1 || threads > MOST_THREADS || items_each < 1) {
        fprintf(stderr, "usage: queue THREADS ITEMS, 1 to %d threads\n", MOST_THREADS);
        return 2;
    }
    use_two_cpus();
    alarm(60); /* a lock that nobody gives back must not stay for ever */
    lock_init(&lock);
    pthread_barrier_init(&gate, NULL, (unsigned)threads + 1);
    pthread_t thread[MOST_THREADS];
    for (int n = 0; n < threads; n++)
        if (pthread_create(&thread[n], NULL, producer, NULL))
            return 1;
    struct timespec begin, end;
    /* Whoever holds a lock may lose the CPU, and then they all queue up.  It happens by itself sooner or later;
     * so that every run begins alike, main() holds the lock until everybody stands in line. */
    lock_take(&lock);
    pthread_barrier_wait(&gate);
    usleep(20000);
    clock_gettime(CLOCK_MONOTONIC, &begin);
    lock_give(&lock);
    for (int n = 0; n < threads; n++)
        pthread_join(thread[n], NULL);
    clock_gettime(CLOCK_MONOTONIC, &end);
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    printf("%ld %ld %lld %ld %lld\n", items, overlaps,
           (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec, used.ru_nvcsw + used.ru_nivcsw,
           (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1000000000LL +
               (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1000LL);
    return 0;
}
