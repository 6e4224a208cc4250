/* wakeplace.c - a busy thread wakes sleeping ones: on which CPU do they run, and how long after they were woken?
 *
 * The waker never sleeps.  Every --gap-us it wakes the next worker that is asleep, and computes on.  A woken worker
 * notes the time and its CPU, works a little, and goes back to sleep.  Hogs, if there are any, keep other CPUs busy.
 * Whoever starts this program places the threads.
 *
 *     ready tid=WAKER tid=WORKER ... tid=HOG ...
 *     wake tid=... at=... ns=... waker=... before=... after=...
 *                                                   one for each wake-up: the worker, when the waker made its system
 *                                                   call (monotonic clock), how long from then until the worker ran;
 *                                                   CPUs of the waker, and of the worker before and after
 *     end block=0 wakes=... lost=...                lost: wake-ups after the memory for records was full
 *
 * Only wake-ups count for which the kernel tells the worker that it slept and was woken.  With --back-to a worker goes
 * to that CPU before it sleeps, and is free to go elsewhere again when it is woken.  Each of --blocks blocks starts
 * with a line on standard input and lasts --duration-ms.
 */
#include "lab.h"

#include <getopt.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MOST_WORKERS = 64, MOST_HOGS = 512, AWAKE = 0, ASLEEP = 1, OVER = 2 };

static struct {
    long workers, hogs, gap_us, work_us, duration_ms, blocks, most, back_to;
} plan = {4, 0, 300, 20, 200, 1, 100000, -1};

static struct wake {
    int64_t at, ns;
    int tid, waker, before, after;
} *wakes;

static struct worker {
    _Atomic pid_t tid;
    _Atomic uint32_t state;
    int64_t woken_ns; /* set by the waker before it wakes */
    int waker, before;
} workers[MOST_WORKERS];

static _Atomic pid_t waker_tid, hog_tid[MOST_HOGS];
static _Atomic long made;
static pthread_barrier_t gate;
static atomic_bool over;
static int64_t start_ns, end_ns;

static void spin_until(int64_t ns)
{
    while (lab_now_ns() < ns)
        ;
}

static long futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/* Go to a CPU, and be free again.  A thread stays where it is for as long as it may. */
static void go_to(long cpu)
{
    cpu_set_t mine, there;
    CPU_ZERO(&there);
    CPU_SET((size_t)cpu, &there);
    if (sched_getaffinity(0, sizeof mine, &mine) || sched_setaffinity(0, sizeof there, &there) ||
        sched_setaffinity(0, sizeof mine, &mine))
        lab_fail("cannot go to CPU %ld", cpu);
}

static void sleep_and_be_woken(struct worker *me)
{
    while (true) {
        if (plan.back_to >= 0)
            go_to(plan.back_to);
        me->before = sched_getcpu();
        atomic_store(&me->state, ASLEEP);
        bool slept = false;
        while (atomic_load(&me->state) == ASLEEP) /* the call fails if the state has changed before it could sleep */
            slept = futex(&me->state, FUTEX_WAIT, ASLEEP) == 0;
        int64_t now = lab_now_ns();
        int after = sched_getcpu();
        if (atomic_load(&me->state) == OVER)
            return;
        if (slept) {
            long number = atomic_fetch_add(&made, 1);
            if (number < plan.most)
                wakes[number] = (struct wake){me->woken_ns, now - me->woken_ns, me->tid, me->waker, me->before, after};
        }
        spin_until(lab_now_ns() + plan.work_us * 1000);
    }
}

static void *be_worker(void *argument)
{
    struct worker *me = argument;
    me->tid = lab_tid();
    for (long block = 0; block < plan.blocks; block++) {
        pthread_barrier_wait(&gate);
        sleep_and_be_woken(me);
        pthread_barrier_wait(&gate);
    }
    return NULL;
}

static void wake(struct worker *who)
{
    who->waker = sched_getcpu();
    who->woken_ns = lab_now_ns();
    atomic_store(&who->state, AWAKE);
    futex(&who->state, FUTEX_WAKE, 1);
}

static void *be_waker(void *unused)
{
    waker_tid = lab_tid();
    for (long block = 0; block < plan.blocks; block++) {
        pthread_barrier_wait(&gate);
        lab_sleep_until(start_ns);
        long next = 0;
        while (lab_now_ns() < end_ns) {
            spin_until(lab_now_ns() + plan.gap_us * 1000);
            for (long tried = 0; tried < plan.workers; tried++) {
                struct worker *who = &workers[next++ % plan.workers];
                if (atomic_load(&who->state) == ASLEEP) {
                    wake(who);
                    break;
                }
            }
        }
        atomic_store(&over, true);
        for (long i = 0; i < plan.workers; i++) { /* once it is asleep, each worker is told that it is over */
            while (atomic_load(&workers[i].state) != ASLEEP)
                sched_yield();
            atomic_store(&workers[i].state, OVER);
            futex(&workers[i].state, FUTEX_WAKE, 1);
        }
        pthread_barrier_wait(&gate);
    }
    return unused;
}

static void *be_hog(void *argument)
{
    *(_Atomic pid_t *)argument = lab_tid();
    for (long block = 0; block < plan.blocks; block++) {
        pthread_barrier_wait(&gate);
        lab_sleep_until(start_ns);
        while (!atomic_load_explicit(&over, memory_order_relaxed))
            ;
        pthread_barrier_wait(&gate);
    }
    return NULL;
}

static void start(pthread_t *thread, void *(*routine)(void *), void *argument, _Atomic pid_t *tid)
{
    *thread = lab_thread(routine, argument);
    while (!*tid)
        sched_yield();
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"workers", required_argument, 0, 'w'}, {"hogs", required_argument, 0, 'h'},
        {"gap-us", required_argument, 0, 'g'},  {"work-us", required_argument, 0, 'u'},
        {"duration-ms", required_argument, 0, 't'}, {"blocks", required_argument, 0, 'b'},
        {"back-to", required_argument, 0, 'a'}, {"deadline", required_argument, 0, 'd'}, {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'w': plan.workers = lab_number("--workers", optarg, 1, MOST_WORKERS); break;
        case 'h': plan.hogs = lab_number("--hogs", optarg, 0, MOST_HOGS); break;
        case 'g': plan.gap_us = lab_number("--gap-us", optarg, 10, 1000000); break;
        case 'u': plan.work_us = lab_number("--work-us", optarg, 0, 100000); break;
        case 't': plan.duration_ms = lab_number("--duration-ms", optarg, 1, 3600000); break;
        case 'b': plan.blocks = lab_number("--blocks", optarg, 1, 10000); break;
        case 'a': plan.back_to = lab_number("--back-to", optarg, 0, CPU_SETSIZE - 1); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    wakes = lab_shared((size_t)plan.most * sizeof *wakes);
    memset(wakes, 0, (size_t)plan.most * sizeof *wakes); /* no page fault later */
    long count = 1 + plan.workers + plan.hogs;
    pthread_barrier_init(&gate, NULL, (unsigned)count + 1);

    static pthread_t threads[1 + MOST_WORKERS + MOST_HOGS];
    static pid_t tids[1 + MOST_WORKERS + MOST_HOGS];
    start(&threads[0], be_waker, NULL, &waker_tid);
    tids[0] = waker_tid;
    for (long i = 0; i < plan.workers; i++) {
        start(&threads[1 + i], be_worker, &workers[i], &workers[i].tid);
        tids[1 + i] = workers[i].tid;
    }
    for (long i = 0; i < plan.hogs; i++) {
        start(&threads[1 + plan.workers + i], be_hog, &hog_tid[i], &hog_tid[i]);
        tids[1 + plan.workers + i] = hog_tid[i];
    }
    lab_barrier(tids, (int)count);

    for (long block = 0; block < plan.blocks; block++) {
        if (block > 0)
            lab_wait_for_a_line();
        atomic_store(&over, false);
        atomic_store(&made, 0);
        start_ns = lab_now_ns() + 10000000; /* time for every worker to fall asleep */
        end_ns = start_ns + plan.duration_ms * 1000000;
        pthread_barrier_wait(&gate);
        pthread_barrier_wait(&gate);
        long kept = made < plan.most ? made : plan.most;
        for (long i = 0; i < kept; i++)
            printf("wake tid=%d at=%ld ns=%ld waker=%d before=%d after=%d\n", wakes[i].tid, (long)wakes[i].at,
                   (long)wakes[i].ns, wakes[i].waker, wakes[i].before, wakes[i].after);
        printf("end block=%ld wakes=%ld lost=%ld\n", block, kept, made - kept);
        fflush(stdout);
    }
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    return lab_done();
}
