/* What the kernel has counted for the thread that asks. */
#ifndef SCHEDSTAT_H
#define SCHEDSTAT_H

#include "lab.h"

#include <inttypes.h>
#include <sys/resource.h>

struct schedstat {
    int64_t run_ns, wait_ns, timeslices;
};

/* On the CPU, ready and without one, and how often it came onto one; zeros where the kernel does not count. */
static inline struct schedstat schedstat_now(void)
{
    struct schedstat s = {0, 0, 0};
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    if (file) {
        if (fscanf(file, "%" SCNd64 " %" SCNd64 " %" SCNd64, &s.run_ns, &s.wait_ns, &s.timeslices) != 3)
            s = (struct schedstat){0, 0, 0};
        fclose(file);
    }
    return s;
}

/* How often it was made to leave the CPU although it could have gone on. */
static inline long involuntary_now(void)
{
    struct rusage usage;
    getrusage(RUSAGE_THREAD, &usage);
    return usage.ru_nivcsw;
}
#endif
