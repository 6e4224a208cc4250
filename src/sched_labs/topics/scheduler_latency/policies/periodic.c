/* periodic.c - a periodic worker among hogs on its CPU: how late does it run, under the policy it was given?
 *
 * The worker is due at fixed points in time, one period apart, laid down when a block starts.  It notes how late
 * it came, does a fixed amount of work, and sleeps until the next point.  A wake-up that comes late does not push
 * the later ones back.  The policy is not set here: whoever started this program gives it to the threads between
 * two blocks, when all of them sleep.
 *
 * The program runs --blocks blocks.  Each starts with a line on standard input and ends with a record `end`.
 *
 *     ready tid=WORKER tid=HOG ...
 *     wake late_ns=... cpu=...          one for each point in time, in order
 *     wake late_ns=... cpu=-1           it had not run when the block was over: it was at least this late
 *     end block=0 elapsed_ns=... worker_cpu_ns=... hogs_cpu_ns=... voluntary=... involuntary=...
 *         elapsed_ns        from the first point in time on; the hogs' CPU time counts from there, too, so that what
 *                           they used before the worker was due is nobody's share.  The worker's counts are its own
 *
 * With --home the worker starts on that CPU.  A worker under a low policy may get next to no CPU, so a block ends
 * at the latest GRACE_NS after its last point.
 */
#include "lab.h"
#include "work.h"

#include <getopt.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MOST_HOGS = 64 };
static const int64_t SETTLE_NS = 20000000, GRACE_NS = 50000000;
static const rlim_t LONGEST_REAL_TIME_US = 1000000; /* the kernel kills a real-time thread that runs on this long */

static struct {
    long hogs, period_us, wakes, work_us, slack_ns, blocks, home;
} plan = {3, 2517, 60, 50, 1, 1, -1};

static struct hog {
    _Atomic pid_t tid;
    int64_t cpu_ns;
} hogs[MOST_HOGS];

static struct wake {
    int64_t late_ns;
    int cpu;
} *wakes;

static _Atomic pid_t worker_tid;
static struct lab_tally worker_tally;
static pthread_barrier_t gate;
static sem_t worker_done;
static atomic_bool over;
static int64_t start_ns, limit_ns, elapsed_ns;
static long work_steps;

static int64_t due_ns(long wake)
{
    return start_ns + SETTLE_NS + wake * plan.period_us * 1000;
}

static void play(void)
{
    struct lab_tally before = lab_tally_now();
    for (long i = 0; i < plan.wakes; i++) {
        lab_sleep_until(due_ns(i));
        int64_t late = lab_now_ns() - due_ns(i);
        if (atomic_load(&over))
            break;
        wakes[i] = (struct wake){late, sched_getcpu()};
        work(work_steps);
    }
    worker_tally = lab_tally_since(before);
}

static void *be_worker(void *unused)
{
    prctl(PR_SET_TIMERSLACK, (unsigned long)plan.slack_ns);
    if (plan.home >= 0) { /* a thread that sleeps where it may not run is moved only when it wakes */
        cpu_set_t here;
        CPU_ZERO(&here);
        CPU_SET((size_t)plan.home, &here);
        if (sched_setaffinity(0, sizeof here, &here))
            lab_fail("cannot run on CPU %ld", plan.home);
    }
    worker_tid = lab_tid();
    for (long block = 0; block < plan.blocks; block++) {
        pthread_barrier_wait(&gate);
        play();
        sem_post(&worker_done);
        pthread_barrier_wait(&gate);
    }
    return unused;
}

static void *be_hog(void *argument)
{
    struct hog *me = argument;
    me->tid = lab_tid();
    for (long block = 0; block < plan.blocks; block++) {
        pthread_barrier_wait(&gate);
        lab_sleep_until(start_ns);
        while (lab_now_ns() < due_ns(0))
            ; /* the turns that the hogs take have settled when the worker comes */
        int64_t before = lab_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        while (!atomic_load_explicit(&over, memory_order_relaxed))
            ;
        me->cpu_ns = lab_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
        pthread_barrier_wait(&gate);
    }
    return NULL;
}

/* Until the worker has done its part, or the block has lasted long enough. */
static void wait_for_the_worker(void)
{
    while (sem_trywait(&worker_done)) {
        if (!atomic_load(&over) && lab_now_ns() > limit_ns)
            atomic_store(&over, true); /* the hogs end, and the worker can */
        lab_sleep_until(lab_now_ns() + 1000000);
    }
    atomic_store(&over, true);
    elapsed_ns = lab_now_ns() - due_ns(0);
}

static void report(long block)
{
    for (long i = 0; i < plan.wakes; i++) {
        if (wakes[i].cpu < 0)
            wakes[i].late_ns = limit_ns - due_ns(i);
        printf("wake late_ns=%ld cpu=%d\n", (long)wakes[i].late_ns, wakes[i].cpu);
    }
    int64_t cpu_ns = 0;
    for (long i = 0; i < plan.hogs; i++)
        cpu_ns += hogs[i].cpu_ns;
    printf("end block=%ld elapsed_ns=%ld worker_cpu_ns=%ld hogs_cpu_ns=%ld voluntary=%ld involuntary=%ld\n", block,
           (long)elapsed_ns, (long)worker_tally.cpu_ns, (long)cpu_ns, (long)worker_tally.voluntary, (long)worker_tally.involuntary);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"hogs", required_argument, 0, 'h'},    {"period-us", required_argument, 0, 'p'},
        {"wakes", required_argument, 0, 'w'},   {"work-us", required_argument, 0, 'u'},
        {"slack-ns", required_argument, 0, 's'}, {"blocks", required_argument, 0, 'b'},
        {"home", required_argument, 0, 'c'},    {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'h': plan.hogs = lab_number("--hogs", optarg, 1, MOST_HOGS); break;
        case 'p': plan.period_us = lab_number("--period-us", optarg, 100, 1000000); break;
        case 'w': plan.wakes = lab_number("--wakes", optarg, 1, 100000); break;
        case 'u': plan.work_us = lab_number("--work-us", optarg, 1, 100000); break;
        case 's': plan.slack_ns = lab_number("--slack-ns", optarg, 1, 1000000000); break;
        case 'c': plan.home = lab_number("--home", optarg, 0, CPU_SETSIZE - 1); break;
        case 'b': plan.blocks = lab_number("--blocks", optarg, 1, 10000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    setrlimit(RLIMIT_RTTIME, &(struct rlimit){LONGEST_REAL_TIME_US, LONGEST_REAL_TIME_US});
    work_steps = 10000 * plan.work_us * 1000 / (quickest(10000) + 1) + 1;
    wakes = lab_shared((size_t)plan.wakes * sizeof *wakes);
    sem_init(&worker_done, 0, 0);
    pthread_barrier_init(&gate, NULL, (unsigned)plan.hogs + 2);

    pthread_t worker, threads[MOST_HOGS];
    pid_t tids[1 + MOST_HOGS];
    worker = lab_thread(be_worker, NULL);
    while (!worker_tid)
        sched_yield();
    tids[0] = worker_tid;
    for (long i = 0; i < plan.hogs; i++) {
        threads[i] = lab_thread(be_hog, &hogs[i]);
        while (!hogs[i].tid)
            sched_yield();
        tids[1 + i] = hogs[i].tid;
    }
    lab_barrier(tids, (int)plan.hogs + 1);

    for (long block = 0; block < plan.blocks; block++) {
        if (block > 0)
            lab_wait_for_a_line();
        atomic_store(&over, false);
        start_ns = lab_now_ns() + 10000000; /* time for every thread to leave the gate, so that they start together */
        limit_ns = due_ns(plan.wakes) + GRACE_NS;
        for (long i = 0; i < plan.wakes; i++)
            wakes[i] = (struct wake){0, -1};
        pthread_barrier_wait(&gate);
        wait_for_the_worker();
        pthread_barrier_wait(&gate);
        report(block);
    }
    pthread_join(worker, NULL);
    for (long i = 0; i < plan.hogs; i++)
        pthread_join(threads[i], NULL);
    return lab_done();
}
