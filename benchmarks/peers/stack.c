/* stack.c - our stack switch and Boost.Context's hand over in the same process, in blocks that take turns.
 *
 * Both loops are the same: over to the other stack, and back.  Boost.Context keeps the floating-point control words
 * too and hands a pointer over; ours does neither (stackswitch.h says why).
 *
 *     stack BLOCKS HOPS [CPU]
 *     boost 1_74
 *     block ours_ns=... boost_ns=...      CPU time of one hop: who loses the CPU meanwhile has not hopped more slowly
 */
#define _GNU_SOURCE
#include "stackswitch.h"

#include <boost/version.hpp>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { STACK_BYTES = 64 * 1024 };

/* What libboost_context exports; its own header is C++. */
struct transfer {
    void *context, *data;
};
struct transfer jump_fcontext(void *to, void *data);
void *make_fcontext(void *top, size_t bytes, void (*enter)(struct transfer));

static char our_stack[STACK_BYTES], boost_stack[STACK_BYTES];
static void *here, *there, *over;

static void be_ours(void)
{
    for (;;)
        stack_switch(&there, here);
}

static void be_boost(struct transfer from)
{
    for (;;)
        from = jump_fcontext(from.context, NULL);
}

static void by_ours(long pairs)
{
    for (long i = 0; i < pairs; i++)
        stack_switch(&here, there);
}

static void by_boost(long pairs)
{
    for (long i = 0; i < pairs; i++)
        over = jump_fcontext(over, NULL).context;
}

static double hop_ns(void (*play)(long pairs), long hops)
{
    struct timespec start, end;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &start);
    play(hops / 2);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
    return ((double)(end.tv_sec - start.tv_sec) * 1e9 + (double)(end.tv_nsec - start.tv_nsec)) / (double)(hops / 2 * 2);
}

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    long blocks = atol(argv[1]), hops = atol(argv[2]);
    if (argc > 3) {
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        CPU_SET((size_t)atol(argv[3]), &cpus);
        sched_setaffinity(0, sizeof cpus, &cpus);
    }
    there = stack_prepare(our_stack + STACK_BYTES, be_ours);
    over = make_fcontext(boost_stack + STACK_BYTES, STACK_BYTES, be_boost);
    puts("boost " BOOST_LIB_VERSION);
    for (long block = -1; block < blocks; block++) { /* the first one warms up */
        double ours = 0, boost = 0;
        if (block % 2)
            ours = hop_ns(by_ours, hops);
        boost = hop_ns(by_boost, hops);
        if (block % 2 == 0)
            ours = hop_ns(by_ours, hops);
        if (block >= 0)
            printf("block ours_ns=%.4f boost_ns=%.4f\n", ours, boost);
    }
    return 0;
}
