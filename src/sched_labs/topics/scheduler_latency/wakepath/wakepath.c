/* wakepath.c - one thread wakes another, again and again: how long until that one runs?
 *
 *     waker     sleeps until shortly before its next time, and computes until then: its own CPU is awake.  It notes
 *               the time, wakes the sleeper, notes the time again
 *     sleeper   sleeps; when it runs, it notes the time, and sleeps again
 *     spinner   only with --spin: computes at the policy SCHED_IDLE, so that its CPU has nothing to do and does not
 *               idle.  Any other thread takes the CPU from it at once.
 *
 * Whoever starts this program places the threads: both on one CPU, or the waker on another than the others.
 *
 *     ready tid=WAKER tid=SLEEPER [tid=SPINNER]
 *     settled                  with --settle: the sleeper has let its CPU idle for a while, and a line on standard
 *                              input starts the rest
 *     wake at=... called_ns=... ns=...     one for each wake-up
 *         at         when the waker was about to make its system call (monotonic clock)
 *         called_ns  from then until the call had returned to the waker
 *         ns         from then until the sleeper ran
 *
 * Only wake-ups count for which the kernel tells the sleeper that it slept and was woken.
 */
#include "lab.h"

#include <getopt.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MOST_WAKES = 100000, AWAKE = 0, ASLEEP = 1 };
enum { EARLY_NS = 50000 }; /* the waker is up so long before its time */
enum { NAPS = 10, NAP_NS = 5000000 }; /* an idle CPU that has polled forgets that only when it idles for longer */

static struct {
    long wakes, gap_us, spin, settle, seed;
} plan = {100, 450, 0, 0, 1};

static struct wake {
    int64_t at_ns, called_ns, ran_ns;
    bool slept;
} *wakes;

static _Atomic pid_t waker_tid, sleeper_tid, spinner_tid;
static _Atomic uint32_t state;
static pthread_barrier_t gate;
static atomic_bool over;

static long futex(int operation, uint32_t value)
{
    return syscall(SYS_futex, &state, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Until the program may begin, until the sleeper's CPU has settled, and until the wake-ups begin. */
static void stand_by(void)
{
    for (int i = 0; i < 3; i++)
        pthread_barrier_wait(&gate);
}

static void *be_waker(void *unused)
{
    unsigned seed = (unsigned)plan.seed;
    waker_tid = lab_tid();
    stand_by();
    for (long i = 0; i < plan.wakes; i++) {
        /* Gaps of one length could keep step with something else: each is between a half and three halves of it. */
        int64_t next_ns = lab_now_ns() + plan.gap_us * 500 + rand_r(&seed) % (plan.gap_us * 1000);
        lab_sleep_until(next_ns - EARLY_NS);
        while (lab_now_ns() < next_ns)
            ;
        while (atomic_load(&state) != ASLEEP)
            sched_yield();
        wakes[i].at_ns = lab_now_ns();
        atomic_store(&state, AWAKE);
        futex(FUTEX_WAKE, 1);
        wakes[i].called_ns = lab_now_ns() - wakes[i].at_ns;
    }
    return unused;
}

static void *be_sleeper(void *unused)
{
    sleeper_tid = lab_tid();
    pthread_barrier_wait(&gate);
    for (int i = 0; i < NAPS && plan.settle; i++)
        lab_sleep_until(lab_now_ns() + NAP_NS);
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    for (long i = 0; i < plan.wakes; i++) {
        bool slept = false;
        atomic_store(&state, ASLEEP);
        while (atomic_load(&state) == ASLEEP) /* the call fails if the state has changed before it could sleep */
            slept = futex(FUTEX_WAIT, ASLEEP) == 0;
        wakes[i].ran_ns = lab_now_ns();
        wakes[i].slept = slept;
    }
    atomic_store(&over, true);
    return unused;
}

static void *be_spinner(void *unused)
{
    struct sched_param none = {0};
    if (sched_setscheduler(0, SCHED_IDLE, &none))
        lab_fail("cannot have the policy SCHED_IDLE");
    spinner_tid = lab_tid();
    stand_by();
    while (!atomic_load_explicit(&over, memory_order_relaxed))
        ;
    return unused;
}

static pthread_t start(void *(*routine)(void *), _Atomic pid_t *tid)
{
    pthread_t thread = lab_thread(routine, NULL);
    while (!*tid)
        sched_yield();
    return thread;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"wakes", required_argument, 0, 'w'}, {"gap-us", required_argument, 0, 'g'}, {"spin", no_argument, 0, 'p'},
        {"settle", no_argument, 0, 't'},      {"seed", required_argument, 0, 's'},
        {"deadline", required_argument, 0, 'd'}, {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'w': plan.wakes = lab_number("--wakes", optarg, 1, MOST_WAKES); break;
        case 'g': plan.gap_us = lab_number("--gap-us", optarg, 20, 1000000); break;
        case 'p': plan.spin = 1; break;
        case 't': plan.settle = 1; break;
        case 's': plan.seed = lab_number("--seed", optarg, 0, 1000000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    wakes = lab_shared((size_t)plan.wakes * sizeof *wakes);
    memset(wakes, 0, (size_t)plan.wakes * sizeof *wakes); /* no page fault later */
    pthread_barrier_init(&gate, NULL, 3 + (unsigned)plan.spin);

    pthread_t threads[3] = {start(be_waker, &waker_tid), start(be_sleeper, &sleeper_tid)};
    if (plan.spin)
        threads[2] = start(be_spinner, &spinner_tid);
    pid_t tids[3] = {waker_tid, sleeper_tid, spinner_tid};
    int count = 2 + (int)plan.spin;
    lab_barrier(tids, count);
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    if (plan.settle) {
        puts("settled");
        fflush(stdout);
        lab_wait_for_a_line();
    }
    pthread_barrier_wait(&gate);
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    for (long i = 0; i < plan.wakes; i++)
        if (wakes[i].slept)
            printf("wake at=%ld called_ns=%ld ns=%ld\n", (long)wakes[i].at_ns, (long)wakes[i].called_ns,
                   (long)(wakes[i].ran_ns - wakes[i].at_ns));
    return lab_done();
}
