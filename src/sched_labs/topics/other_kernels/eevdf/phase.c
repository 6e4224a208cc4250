/* phase.c - a sleeper that wakes at a chosen moment of a hog's turn: how long does it wait for the CPU?
 *
 * Both threads share a CPU.  In each round the sleeper has had the CPU and goes to sleep, which begins the hog's turn;
 * it is due a chosen time later, the phase, and notes how late it runs.  What came before is the same in each round:
 *
 *     --before worked   the sleeper wakes alone, the hog joins it, the sleeper works for --work-us and sleeps
 *     --before waited   the hog wakes alone, the sleeper joins it, waits for its turn, works a moment and sleeps
 *
 * Who sleeps takes along by how much it is ahead of or behind its share.  So each thread begins a round by waking once
 * while nobody else wants the CPU: there is no share to be behind of, and it takes nothing along from the round before.
 *
 *     ready tid=SLEEPER tid=HOG
 *     wake phase_ns=... late_ns=... before_ns=...     one for each round; before_ns: how late the sleeper joined
 */
#include "lab.h"

#include <getopt.h>
#include <stdatomic.h>
#include <stdbool.h>

static const int64_t ALONE_NS = 2000000;  /* from waking alone to the beginning of what counts */
static const int64_t JOIN_NS = 100000;    /* the second thread comes so long after the first */
static const int64_t MOMENT_NS = 200000;  /* what a sleeper that has waited works */
static const int64_t GAP_NS = 20000;      /* between two looks at the clock; more of it was somebody else's */

static struct {
    long work_us, first_us, step_us, phases, round_us, settle_us;
    bool waited;
} plan = {500, 250, 500, 12, 100000, 100000, false};

static pthread_barrier_t gate;
static atomic_long served; /* rounds that the sleeper has done */
static int64_t start_ns;
static _Atomic pid_t hog_tid;

static int64_t round_at(long round)
{
    return start_ns + round * plan.round_us * 1000;
}

/* Wakes once while nobody else wants the CPU, and then when the round begins for this thread. */
static void begin_round(long round, bool second)
{
    int64_t begin = round_at(round) + ALONE_NS;
    lab_sleep_until(begin - ALONE_NS / (second ? 2 : 1));
    lab_sleep_until(begin + (second ? JOIN_NS : 0));
}

static void *be_hog(void *unused)
{
    (void)unused;
    prctl(PR_SET_TIMERSLACK, 1UL);
    hog_tid = lab_tid();
    pthread_barrier_wait(&gate);
    for (long i = 0; i < plan.phases; i++) {
        begin_round(i, !plan.waited);
        while (atomic_load_explicit(&served, memory_order_relaxed) <= i)
            ;
    }
    return NULL;
}

/* Works for so long, not counting the time for which somebody else had the CPU. */
static void work_for(int64_t ns)
{
    for (int64_t done = 0, last = lab_now_ns(); done < ns;) {
        int64_t now = lab_now_ns();
        if (now - last < GAP_NS)
            done += now - last;
        last = now;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"before", required_argument, 0, 'b'},  {"work-us", required_argument, 0, 'w'},
        {"first-us", required_argument, 0, 'f'}, {"step-us", required_argument, 0, 's'},
        {"phases", required_argument, 0, 'p'},   {"round-us", required_argument, 0, 'r'},
        {"settle-us", required_argument, 0, 't'}, {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'w': plan.work_us = lab_number("--work-us", optarg, 1, 100000); break;
        case 'f': plan.first_us = lab_number("--first-us", optarg, 1, 1000000); break;
        case 's': plan.step_us = lab_number("--step-us", optarg, 1, 1000000); break;
        case 'p': plan.phases = lab_number("--phases", optarg, 1, 10000); break;
        case 'r': plan.round_us = lab_number("--round-us", optarg, 10000, 10000000); break;
        case 't': plan.settle_us = lab_number("--settle-us", optarg, 0, 10000000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        case 'b':
            plan.waited = !strcmp(optarg, "waited");
            if (!plan.waited && strcmp(optarg, "worked"))
                lab_fail("--before takes worked or waited, not '%s'", optarg);
            break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    prctl(PR_SET_TIMERSLACK, 1UL); /* by default the kernel may deliver a wake-up 50 µs late to save power */
    struct { int64_t late_ns, before_ns; } *told = lab_shared((size_t)plan.phases * sizeof *told);
    memset(told, 0, (size_t)plan.phases * sizeof *told); /* no page fault later */
    pthread_barrier_init(&gate, NULL, 2);
    pthread_t hog = lab_thread(be_hog, NULL);
    while (!hog_tid)
        sched_yield();
    lab_barrier((pid_t[]){lab_tid(), hog_tid}, 2);

    /* What the start left the kernel to do is done by then.  All begin on a full 100 ms of the clock, at the same place
     * between two ticks of the scheduler. */
    start_ns = ((lab_now_ns() + plan.settle_us * 1000) / 100000000 + 1) * 100000000;
    pthread_barrier_wait(&gate);
    for (long i = 0; i < plan.phases; i++) {
        begin_round(i, plan.waited);
        told[i].before_ns = lab_now_ns() - round_at(i) - ALONE_NS - (plan.waited ? JOIN_NS : 0);
        work_for(plan.waited ? MOMENT_NS : plan.work_us * 1000);
        int64_t due = lab_now_ns() + (plan.first_us + i * plan.step_us) * 1000;
        lab_sleep_until(due);
        told[i].late_ns = lab_now_ns() - due;
        atomic_store(&served, i + 1);
    }
    pthread_join(hog, NULL);

    for (long i = 0; i < plan.phases; i++)
        printf("wake phase_ns=%ld late_ns=%ld before_ns=%ld\n", (plan.first_us + i * plan.step_us) * 1000,
               (long)told[i].late_ns, (long)told[i].before_ns);
    return lab_done();
}
