/* inversion.c - a thread with priority waits for a lock that a thread without any holds: for how long?
 *
 * Three kinds of threads, all on one CPU, which whoever started this program gives them:
 *
 *     holder   computes all the time, --nice more than the others; now and then it takes the lock, for --hold-us of
 *              its own work
 *     waiter   wants the lock as soon as the holder has it, and sleeps otherwise
 *     hogs     compute all the time, and never touch the lock
 *
 * The waiter is SCHED_FIFO of --priority (0: an ordinary thread like the others), and the lock is one of
 *
 *     mutex    the C library's ordinary mutex
 *     inherit  the same with PTHREAD_PRIO_INHERIT: while somebody waits, its holder has the priority of who waits
 *     raise    the ordinary one, but the holder makes itself SCHED_FIFO of that priority before it takes the lock
 *              and ordinary again after it.  PTHREAD_PRIO_PROTECT would be for this, but the C library refuses it
 *              to a thread that is not real-time.
 *
 *     ready tid=HOLDER tid=WAITER tid=HOG ...
 *     cost pairs=... elapsed_ns=...        takes and releases of the lock before anybody else wants it
 *     hand_over wait_ns=... hogs_ns=...    one for each time
 *         wait_ns   from when the waiter was asked to take the lock until it had it
 *         hogs_ns   what of it the hogs had the CPU
 */
#include "lab.h"
#include "work.h"

#include <getopt.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MOST_HOGS = 8, MOST_HAND_OVERS = 1000, PAIRS = 1000, WARM_PAIRS = 10 };
enum lock { MUTEX, INHERIT, RAISE, LOCKS };
static const char *const locks[LOCKS] = {"mutex", "inherit", "raise"};

static struct {
    enum lock lock;
    long priority, nice, hogs, hand_overs, hold_us, apart_us, seed;
} plan = {MUTEX, 50, 0, 1, 4, 200, 3000, 1};

static struct hand_over {
    int64_t asked_ns, wait_ns, hogs_ns;
} hand_overs[MOST_HAND_OVERS];

static struct hog {
    _Atomic pid_t tid;
    clockid_t cpu_clock;
} hogs[MOST_HOGS];

static _Atomic pid_t holder_tid, waiter_tid;
static pthread_mutex_t mutex;
static pthread_barrier_t gate;
static sem_t asked, served;
static atomic_bool over;
static double steps_in_us;
static int64_t cost_ns;

/* Gives the calling thread a real-time priority, or takes it away; its nice value stays. */
static void have_priority(long priority)
{
    struct sched_param wanted = {.sched_priority = (int)priority};
    if (sched_setscheduler(0, priority ? SCHED_FIFO : SCHED_OTHER, &wanted))
        lab_fail("cannot have the real-time priority %ld", priority);
}

static void holder_takes_the_lock(void)
{
    if (plan.lock == RAISE)
        have_priority(plan.priority);
    pthread_mutex_lock(&mutex);
}

static void holder_releases_the_lock(void)
{
    pthread_mutex_unlock(&mutex);
    if (plan.lock == RAISE)
        have_priority(0);
}

static int64_t hogs_cpu_ns(void)
{
    int64_t ns = 0;
    for (long i = 0; i < plan.hogs; i++)
        ns += lab_clock_ns(hogs[i].cpu_clock);
    return ns;
}

static void *be_holder(void *unused)
{
    unsigned seed = (unsigned)plan.seed;
    holder_tid = lab_tid();
    nice((int)plan.nice); /* this thread only: so much nicer than the hogs, whatever they are; never refused */
    pthread_barrier_wait(&gate);
    int64_t before = 0;
    for (int i = -WARM_PAIRS; i < PAIRS; i++) { /* the first ones find code and locks cold: they are not measured */
        if (i == 0)
            before = lab_now_ns();
        holder_takes_the_lock();
        holder_releases_the_lock();
    }
    cost_ns = lab_now_ns() - before;
    pthread_barrier_wait(&gate); /* the hogs begin */
    for (long i = 0; i < plan.hand_overs; i++) {
        struct hand_over *this = &hand_overs[i];
        /* Work of its own, and not a time: so the next one comes anywhere in its turns. */
        work((long)(steps_in_us * (double)(rand_r(&seed) % (plan.apart_us + 1))));
        holder_takes_the_lock();
        this->asked_ns = lab_now_ns();
        this->hogs_ns = hogs_cpu_ns();
        sem_post(&asked); /* a waiter with priority has the CPU here, and gives it back when it has to wait */
        work((long)(steps_in_us * (double)plan.hold_us));
        holder_releases_the_lock();
        sem_wait(&served);
    }
    atomic_store(&over, true);
    return unused;
}

static void *be_waiter(void *unused)
{
    waiter_tid = lab_tid();
    pthread_barrier_wait(&gate);
    have_priority(plan.priority);
    pthread_barrier_wait(&gate);
    for (long i = 0; i < plan.hand_overs; i++) {
        struct hand_over *this = &hand_overs[i];
        sem_wait(&asked);
        pthread_mutex_lock(&mutex);
        this->hogs_ns = hogs_cpu_ns() - this->hogs_ns;
        this->wait_ns = lab_now_ns() - this->asked_ns;
        pthread_mutex_unlock(&mutex);
        sem_post(&served);
    }
    return unused;
}

static void *be_hog(void *argument)
{
    struct hog *me = argument;
    pthread_getcpuclockid(pthread_self(), &me->cpu_clock);
    me->tid = lab_tid();
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    while (!atomic_load_explicit(&over, memory_order_relaxed))
        ;
    return NULL;
}

static enum lock lock_named(const char *name)
{
    for (enum lock lock = 0; lock < LOCKS; lock++)
        if (!strcmp(name, locks[lock]))
            return lock;
    errno = 0;
    lab_fail("--lock takes mutex, inherit or raise, not '%s'", name);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"lock", required_argument, 0, 'l'},       {"priority", required_argument, 0, 'p'},
        {"nice", required_argument, 0, 'n'},       {"hogs", required_argument, 0, 'h'},
        {"hand-overs", required_argument, 0, 'o'}, {"hold-us", required_argument, 0, 'u'},
        {"apart-us", required_argument, 0, 'a'},   {"seed", required_argument, 0, 's'},
        {"deadline", required_argument, 0, 'd'},   {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'l': plan.lock = lock_named(optarg); break;
        case 'p': plan.priority = lab_number("--priority", optarg, 0, 50); break;
        case 'n': plan.nice = lab_number("--nice", optarg, 0, 19); break;
        case 'h': plan.hogs = lab_number("--hogs", optarg, 0, MOST_HOGS); break;
        case 'o': plan.hand_overs = lab_number("--hand-overs", optarg, 1, MOST_HAND_OVERS); break;
        case 'u': plan.hold_us = lab_number("--hold-us", optarg, 1, 10000); break;
        case 'a': plan.apart_us = lab_number("--apart-us", optarg, 0, 100000); break;
        case 's': plan.seed = lab_number("--seed", optarg, 0, 1000000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    /* Nothing here is real-time for longer than the lock is held; if it were, the kernel would end it. */
    setrlimit(RLIMIT_RTTIME, &(struct rlimit){1000000, 1000000});
    steps_in_us = steps_per_us();
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    if (plan.lock == INHERIT && pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT))
        lab_fail("no mutex with priority inheritance");
    pthread_mutex_init(&mutex, &kind);
    sem_init(&asked, 0, 0);
    sem_init(&served, 0, 0);
    pthread_barrier_init(&gate, NULL, 3 + (unsigned)plan.hogs);

    pthread_t holder = lab_thread(be_holder, NULL), waiter = lab_thread(be_waiter, NULL);
    pthread_t hog_threads[MOST_HOGS];
    while (!holder_tid || !waiter_tid)
        sched_yield();
    pid_t tids[2 + MOST_HOGS] = {holder_tid, waiter_tid};
    for (long i = 0; i < plan.hogs; i++) {
        hog_threads[i] = lab_thread(be_hog, &hogs[i]);
        while (!hogs[i].tid)
            sched_yield();
        tids[2 + i] = hogs[i].tid;
    }
    lab_barrier(tids, 2 + (int)plan.hogs);
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    pthread_join(holder, NULL);
    pthread_join(waiter, NULL);
    for (long i = 0; i < plan.hogs; i++)
        pthread_join(hog_threads[i], NULL);
    printf("cost pairs=%d elapsed_ns=%ld\n", PAIRS, (long)cost_ns);
    for (long i = 0; i < plan.hand_overs; i++)
        printf("hand_over wait_ns=%ld hogs_ns=%ld\n", (long)hand_overs[i].wait_ns, (long)hand_overs[i].hogs_ns);
    return lab_done();
}
