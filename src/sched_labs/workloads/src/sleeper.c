/* sleeper.c - a light sleeper among hogs: how late does it get the CPU after its time has come?
 *
 * One thread sleeps until a fixed point in time, notes how late it woke, works a little, and sleeps again.
 * The points in time are laid down at the start, one period apart: a wake-up that comes late does not push the
 * later ones back, so no lateness is hidden.
 *
 * The hogs never sleep.  By default they compute; with `--hog mmap` they spend their time in one long system
 * call after the other (mapping and clearing memory), which not every kernel interrupts for a waking thread.
 *
 *     ready tid=SLEEPER tid=HOG ...
 *     wake late_ns=...                  one for each wake-up, in order
 *     sleeper cpu_ns=... voluntary=... involuntary=...
 *     hog cpu_ns=... involuntary=...    one for each hog
 */
#include "lab.h"

#include <getopt.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MOST_HOGS = 64 };
static const int64_t SETTLE_NS = 100000000; /* the hogs run this long before the first wake-up counts */

static struct {
    long hogs, period_us, wakes, work_us, map_mib;
    bool map;
} plan = {3, 2017, 500, 0, 16, false};

static pthread_barrier_t gate;
static atomic_bool over;
static int64_t start_ns;
static int64_t *late_ns;
static struct lab_tally sleeper_tally;

static struct hog {
    _Atomic pid_t tid;
    struct lab_tally tally;
} hogs[MOST_HOGS];

static void compute_until_over(void)
{
    while (!atomic_load_explicit(&over, memory_order_relaxed))
        ;
}

/* Each call makes the kernel find, clear and map many pages before it returns. */
static void map_until_over(void)
{
    size_t bytes = (size_t)plan.map_mib << 20;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        if (memory == MAP_FAILED)
            lab_fail("cannot map %zu bytes", bytes);
        munmap(memory, bytes);
    }
}

static void *be_hog(void *argument)
{
    struct hog *me = argument;
    me->tid = lab_tid();
    pthread_barrier_wait(&gate);
    lab_sleep_until(start_ns);
    struct lab_tally before = lab_tally_now();
    (plan.map ? map_until_over : compute_until_over)();
    me->tally = lab_tally_since(before);
    return NULL;
}

static void be_sleeper(void)
{
    /* By default the kernel may deliver a wake-up 50 µs late to save power; that is not what we look for. */
    prctl(PR_SET_TIMERSLACK, 1UL);
    lab_sleep_until(start_ns);
    struct lab_tally before = lab_tally_now();
    for (long i = 0; i < plan.wakes; i++) {
        int64_t due = start_ns + SETTLE_NS + i * plan.period_us * 1000;
        lab_sleep_until(due);
        int64_t now = lab_now_ns();
        late_ns[i] = now - due;
        for (int64_t rest = now + plan.work_us * 1000; now < rest;)
            now = lab_now_ns();
    }
    sleeper_tally = lab_tally_since(before);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"hogs", required_argument, 0, 'h'},   {"hog", required_argument, 0, 'k'},
        {"period-us", required_argument, 0, 'p'}, {"wakes", required_argument, 0, 'w'},
        {"work-us", required_argument, 0, 'u'},   {"map-mib", required_argument, 0, 'm'},
        {"deadline", required_argument, 0, 'd'},  {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'h': plan.hogs = lab_number("--hogs", optarg, 0, MOST_HOGS); break;
        case 'p': plan.period_us = lab_number("--period-us", optarg, 10, 1000000); break;
        case 'w': plan.wakes = lab_number("--wakes", optarg, 1, 1000000); break;
        case 'u': plan.work_us = lab_number("--work-us", optarg, 0, 1000000); break;
        case 'm': plan.map_mib = lab_number("--map-mib", optarg, 1, 4096); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        case 'k':
            plan.map = !strcmp(optarg, "mmap");
            if (!plan.map && strcmp(optarg, "compute"))
                lab_fail("--hog takes compute or mmap, not '%s'", optarg);
            break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    late_ns = lab_shared((size_t)plan.wakes * sizeof *late_ns);
    memset(late_ns, 0, (size_t)plan.wakes * sizeof *late_ns); /* no page fault later */
    pthread_barrier_init(&gate, NULL, (unsigned)plan.hogs + 1);

    pthread_t threads[MOST_HOGS];
    pid_t tids[1 + MOST_HOGS] = {lab_tid()};
    for (long i = 0; i < plan.hogs; i++) {
        threads[i] = lab_thread(be_hog, &hogs[i]);
        while (!hogs[i].tid)
            sched_yield();
        tids[1 + i] = hogs[i].tid;
    }
    lab_barrier(tids, (int)plan.hogs + 1);

    /* All start together, 50 to 150 ms from now, on a full 100 ms of the clock: far from what came before, and
     * always at the same place between two ticks of the scheduler. */
    int64_t now = lab_now_ns();
    start_ns = (now / 100000000 + 1) * 100000000;
    if (start_ns - now < 50000000)
        start_ns += 100000000;
    pthread_barrier_wait(&gate);
    be_sleeper();
    atomic_store(&over, true);
    for (long i = 0; i < plan.hogs; i++)
        pthread_join(threads[i], NULL);

    for (long i = 0; i < plan.wakes; i++)
        printf("wake late_ns=%ld\n", (long)late_ns[i]);
    printf("sleeper cpu_ns=%ld voluntary=%ld involuntary=%ld\n", (long)sleeper_tally.cpu_ns,
           (long)sleeper_tally.voluntary, (long)sleeper_tally.involuntary);
    for (long i = 0; i < plan.hogs; i++)
        printf("hog cpu_ns=%ld involuntary=%ld\n", (long)hogs[i].tally.cpu_ns, (long)hogs[i].tally.involuntary);
    return lab_done();
}
