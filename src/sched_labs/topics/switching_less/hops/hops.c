/* hops.c - two flows of control hand over to each other inside one thread: what does a hop cost without the kernel?
 *
 *     call      a function call and its return, for comparison: nothing changes hands
 *     stack     our own stack switch, sixteen instructions (stackswitch.h)
 *     ucontext  swapcontext() of the C library; it also saves the signal mask, which takes a system call
 *
 *     ready tid=...
 *     hop by=stack trial=0 hops=... elapsed_ns=... cpu_ns=... voluntary=... involuntary=...
 */
#include "lab.h"
#include "stackswitch.h"

#include <getopt.h>
#include <inttypes.h>
#include <ucontext.h>

enum { STACK_BYTES = 64 * 1024 };

static struct {
    long trials, hops;
} plan = {9, 1000000};

static char other_stack[STACK_BYTES], other_ucontext_stack[STACK_BYTES];
static void *here, *there;
static ucontext_t main_context, other_context;

/* ---- three ways to hand over and get it back: two hops ---------------------------------------------------- */

__attribute__((noinline)) static void call_there(void)
{
    __asm__ volatile("");
}

static void be_other_stack(void)
{
    for (;;)
        stack_switch(&there, here);
}

static void be_other_context(void)
{
    for (;;)
        swapcontext(&other_context, &main_context);
}

static void by_call(long pairs)
{
    for (long i = 0; i < pairs; i++)
        call_there();
}

static void by_stack(long pairs)
{
    for (long i = 0; i < pairs; i++)
        stack_switch(&here, there);
}

static void by_ucontext(long pairs)
{
    for (long i = 0; i < pairs; i++)
        swapcontext(&main_context, &other_context);
}

static const struct {
    const char *name;
    void (*play)(long pairs);
    long divisor; /* so much slower that fewer hops are enough */
} ways[] = {{"call", by_call, 1}, {"stack", by_stack, 1}, {"ucontext", by_ucontext, 20}};

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"trials", required_argument, 0, 't'},
        {"hops", required_argument, 0, 'h'},
        {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 't': plan.trials = lab_number("--trials", optarg, 1, 100000); break;
        case 'h': plan.hops = lab_number("--hops", optarg, 100, 1000000000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    there = stack_prepare(other_stack + STACK_BYTES, be_other_stack);
    if (getcontext(&other_context))
        lab_fail("getcontext");
    other_context.uc_stack.ss_sp = other_ucontext_stack;
    other_context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&other_context, be_other_context, 0);
    lab_barrier((pid_t[]){lab_tid()}, 1);

    for (long trial = 0; trial < plan.trials; trial++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            long pairs = plan.hops / 2 / ways[i].divisor;
            ways[i].play(pairs / 10 + 1); /* the first hops find cold caches and an untrained predictor */
            struct lab_tally before = lab_tally_now();
            int64_t start = lab_now_ns();
            ways[i].play(pairs);
            int64_t elapsed = lab_now_ns() - start;
            struct lab_tally did = lab_tally_since(before);
            printf("hop by=%s trial=%ld hops=%ld elapsed_ns=%" PRId64 " cpu_ns=%" PRId64 " voluntary=%" PRId64
                   " involuntary=%" PRId64 "\n",
                   ways[i].name, trial, 2 * pairs, elapsed, did.cpu_ns, did.voluntary, did.involuntary);
        }
    return lab_done();
}
