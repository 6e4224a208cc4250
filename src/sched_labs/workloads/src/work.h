/* work.h - a fixed amount of work: steps of arithmetic, and how long they take when nobody disturbs them. */
#ifndef WORK_H
#define WORK_H

#include "lab.h"

/* Each step needs the result of the one before, and the empty asm keeps the compiler from skipping any. */
static inline void work(long steps)
{
    uint32_t x = 1;
    for (long i = 0; i < steps; i++) {
        x = x * 1664525 + 1013904223;
        __asm__ volatile("" : "+r"(x));
    }
}

/* The least time of thirty: whatever comes in between only ever adds. */
static inline int64_t quickest(long steps)
{
    int64_t best = INT64_MAX;
    for (int i = 0; i < 30; i++) {
        int64_t before = lab_now_ns();
        work(steps);
        int64_t took = lab_now_ns() - before;
        if (took < best)
            best = took;
    }
    return best;
}

/* How many steps take a microsecond here: call it once, before anything is measured. */
static inline double steps_per_us(void)
{
    return 10000 * 1000.0 / (double)(quickest(10000) + 1);
}

#endif
