/* wakeup.c - how late does a thread run after its time has come?  The wake-up probe that needs no privilege.
 *
 * One thread sleeps until points in time that are laid down at the start, one period apart.  A wake-up that comes
 * late does not push the later ones back, so that no lateness is hidden (no coordinated omission).  How late it
 * runs has two parts.  The kernel may deliver a timer late on purpose, by up to the timer slack, to wake the CPU
 * less often; and the woken thread may wait for a CPU.  So the probe sleeps with two slacks in turn: 1 ns, which
 * leaves the second part alone, and (every other block) the slack that it has inherited, 50 us unless somebody
 * changed it.
 *
 * The lateness goes into a histogram with 64 bins of equal width in each power of two, at most 1.6 % wide.
 *
 *     ready tid=PROBE
 *     block block=0 slack_ns=1 wakes=... elapsed_ns=... late_sum_ns=... late_max_ns=... voluntary=... involuntary=...
 *           wait_ns=... timeslices=...    run delay and times switched in, from /proc/thread-self/schedstat; left
 *                                         out where the kernel does not keep them
 *     late block=0 bin=... wakes=...      one for each bin that is not empty; bin n starts at n ns up to 64, then at
 *                                         (64 + n % 64) << (n / 64 - 1) ns
 */
#include "lab.h"
#include "schedstat.h"

#include <getopt.h>
#include <inttypes.h>

enum { BIN_BITS = 6, BINS = (63 - BIN_BITS + 1) << BIN_BITS, MOST_BLOCKS = 100 };

static struct {
    long period_us, wakes, blocks, work_us;
} plan = {1009, 500, 2, 0};

static struct block {
    long slack_ns;
    int64_t elapsed_ns, sum_ns, max_ns;
    struct lab_tally tally;
    struct schedstat scheduled;
    uint32_t *late;
} blocks[MOST_BLOCKS];

static int bin_of(int64_t ns)
{
    int top = 63 - __builtin_clzll((uint64_t)ns | 1), shift = top > BIN_BITS ? top - BIN_BITS : 0;
    return (shift << BIN_BITS) + (int)(ns >> shift);
}

static void measure(struct block *me)
{
    if (prctl(PR_SET_TIMERSLACK, (unsigned long)me->slack_ns))
        lab_fail("cannot set the timer slack");
    int64_t start_ns = lab_now_ns() + 5000000;
    lab_sleep_until(start_ns);
    struct schedstat first = schedstat_now();
    struct lab_tally before = lab_tally_now();
    for (long i = 1; i <= plan.wakes; i++) {
        int64_t due = start_ns + i * plan.period_us * 1000;
        lab_sleep_until(due);
        int64_t now = lab_now_ns(), late = now > due ? now - due : 0;
        me->late[bin_of(late)]++;
        me->sum_ns += late;
        if (late > me->max_ns)
            me->max_ns = late;
        for (int64_t rest = now + plan.work_us * 1000; now < rest;)
            now = lab_now_ns();
    }
    me->elapsed_ns = lab_now_ns() - start_ns;
    me->tally = lab_tally_since(before);
    struct schedstat last = schedstat_now();
    me->scheduled = (struct schedstat){last.run_ns - first.run_ns, last.wait_ns - first.wait_ns,
                                       last.timeslices - first.timeslices};
}

static void report(int number, const struct block *me)
{
    printf("block block=%d slack_ns=%ld wakes=%ld elapsed_ns=%" PRId64 " late_sum_ns=%" PRId64
           " late_max_ns=%" PRId64 " voluntary=%" PRId64 " involuntary=%" PRId64,
           number, me->slack_ns, plan.wakes, me->elapsed_ns, me->sum_ns, me->max_ns, me->tally.voluntary,
           me->tally.involuntary);
    if (me->scheduled.run_ns > 0)
        printf(" wait_ns=%" PRId64 " timeslices=%" PRId64, me->scheduled.wait_ns, me->scheduled.timeslices);
    putchar('\n');
    for (int bin = 0; bin < BINS; bin++)
        if (me->late[bin])
            printf("late block=%d bin=%d wakes=%" PRIu32 "\n", number, bin, me->late[bin]);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"period-us", required_argument, 0, 'p'}, {"wakes", required_argument, 0, 'w'},
        {"blocks", required_argument, 0, 'b'},    {"work-us", required_argument, 0, 'u'},
        {"deadline", required_argument, 0, 'd'},  {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'p': plan.period_us = lab_number("--period-us", optarg, 10, 1000000); break;
        case 'w': plan.wakes = lab_number("--wakes", optarg, 1, 1000000); break;
        case 'b': plan.blocks = lab_number("--blocks", optarg, 1, MOST_BLOCKS); break;
        case 'u': plan.work_us = lab_number("--work-us", optarg, 0, 1000000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    long inherited_ns = prctl(PR_GET_TIMERSLACK);
    for (long i = 0; i < plan.blocks; i++) {
        blocks[i].slack_ns = i % 2 ? inherited_ns : 1;
        blocks[i].late = lab_shared(BINS * sizeof *blocks[i].late);
        memset(blocks[i].late, 0, BINS * sizeof *blocks[i].late); /* no page fault later */
    }
    pid_t tid = lab_tid();
    lab_barrier(&tid, 1);
    for (long i = 0; i < plan.blocks; i++)
        measure(&blocks[i]);
    for (long i = 0; i < plan.blocks; i++)
        report((int)i, &blocks[i]);
    return lab_done();
}
