/* pingpong.c - two threads hand a turn back and forth: what does one hand-over cost?
 *
 * Side 0 passes the turn to side 1 and waits until it comes back: one round trip, two hand-overs.  On one CPU
 * each hand-over is a context switch, and the kernel's own counts say whether that is so (ru_nvcsw, ru_nivcsw).
 *
 * Before every block of round trips, side 0 makes the same system calls alone, passing the turn to itself.
 * That block has the system calls; in it nobody blocks, is woken or is switched.  The difference is those three.
 *
 * One way makes no system call at all: both sides watch a word in memory.  What it takes between two CPUs is what
 * the word itself takes to travel; on one CPU each side would watch until its slice is over.
 */
#include "lab.h"

#include <getopt.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/eventfd.h>

/* Everything both sides see.  It is shared memory, because the sides may be two processes. */
static struct {
    int pipe[2][2];         /* pipe[side]: side reads from it, the other side writes */
    int event[2];           /* eventfd, likewise */
    _Atomic uint32_t turn;  /* futex word: whose turn it is */
    pthread_mutex_t mutex;  /* condition variable: protects `turn` */
    pthread_cond_t changed[2];
    pthread_barrier_t gate; /* both sides enter and leave a block together */
    struct {
        struct lab_tally tally;
        int64_t migrations;
    } side[2];
    _Atomic pid_t partner_tid;
} *shared;

static bool processes;

/* ---- six ways to pass the turn --------------------------------------------------------------------------- */

static void put(int fd, const void *bytes, size_t size)
{
    if (write(fd, bytes, size) != (ssize_t)size)
        lab_fail("write");
}

static void get(int fd, void *bytes, size_t size)
{
    if (read(fd, bytes, size) != (ssize_t)size)
        lab_fail("read");
}

static void pipe_pass(int to) { put(shared->pipe[to][1], "x", 1); }
static void pipe_wait(int me) { char byte; get(shared->pipe[me][0], &byte, 1); }

static void event_pass(int to) { uint64_t one = 1; put(shared->event[to], &one, sizeof one); }
static void event_wait(int me) { uint64_t count; get(shared->event[me], &count, sizeof count); }

static void futex(int operation, uint32_t value)
{
    if (!processes)
        operation |= FUTEX_PRIVATE_FLAG; /* within one process the kernel can skip looking the page up */
    if (syscall(SYS_futex, &shared->turn, operation, value, NULL, NULL, 0) < 0 && errno != EAGAIN && errno != EINTR)
        lab_fail("futex");
}

static void futex_pass(int to)
{
    atomic_store(&shared->turn, (uint32_t)to);
    futex(FUTEX_WAKE, 1);
}

static void futex_wait(int me)
{
    while (atomic_load(&shared->turn) != (uint32_t)me)
        futex(FUTEX_WAIT, (uint32_t)!me); /* sleeps only while it is still the other side's turn */
}

/* For every hand-over.  In an exchange a waker whose partner preempts it finds the turn back, and does not wait. */
static void futex_alone(void)
{
    futex(FUTEX_WAKE, 1);                            /* nobody waits */
    futex(FUTEX_WAIT, !atomic_load(&shared->turn));  /* the word has another value: returns at once */
}

static void condvar_pass(int to)
{
    pthread_mutex_lock(&shared->mutex);
    shared->turn = (uint32_t)to;
    pthread_cond_signal(&shared->changed[to]);
    pthread_mutex_unlock(&shared->mutex);
}

static void condvar_wait(int me)
{
    pthread_mutex_lock(&shared->mutex);
    while (shared->turn != (uint32_t)me)
        pthread_cond_wait(&shared->changed[me], &shared->mutex);
    pthread_mutex_unlock(&shared->mutex);
}

static void condvar_alone(void)
{
    condvar_pass(0);                 /* lock, signal nobody, unlock: no system call */
    pthread_mutex_lock(&shared->mutex);
    pthread_mutex_unlock(&shared->mutex);
    futex_alone();                   /* what signal and wait ask of the kernel when somebody does wait */
}

static void yield_pass(int to) { (void)to; }
static void yield_wait(int me) { (void)me; sched_yield(); }

static void poll_pass(int to) { atomic_store(&shared->turn, (uint32_t)to); }
static void poll_wait(int me)
{
    while (atomic_load_explicit(&shared->turn, memory_order_acquire) != (uint32_t)me)
        ;
}

static void pipe_alone(void) { pipe_pass(0); pipe_wait(0); }
static void event_alone(void) { event_pass(0); event_wait(0); }
static void yield_alone(void) { sched_yield(); }
static void poll_alone(void) { poll_pass(0); poll_wait(0); }

static const struct mechanism {
    const char *name;
    void (*pass)(int to);
    void (*wait)(int me);
    void (*alone)(void); /* the system calls of one hand-over, in one thread */
} mechanisms[] = {
    {"pipe", pipe_pass, pipe_wait, pipe_alone},
    {"eventfd", event_pass, event_wait, event_alone},
    {"futex", futex_pass, futex_wait, futex_alone},
    {"condvar", condvar_pass, condvar_wait, condvar_alone},
    {"yield", yield_pass, yield_wait, yield_alone},
    {"poll", poll_pass, poll_wait, poll_alone},
};

/* ---- one block ------------------------------------------------------------------------------------------- */

/* Plays one block of round trips and returns how long it took this side. */
static int64_t play(const struct mechanism *by, int me, long round_trips)
{
    int cpu = sched_getcpu();
    int64_t migrations = 0;
    struct lab_tally before = lab_tally_now();
    int64_t start = lab_now_ns();
    for (long i = 0; i < round_trips; i++) {
        if (me == 0)
            by->pass(1);
        by->wait(me);
        if (me == 1)
            by->pass(0);
        int now = sched_getcpu();
        migrations += now != cpu;
        cpu = now;
    }
    int64_t elapsed = lab_now_ns() - start;
    shared->side[me].tally = lab_tally_since(before);
    shared->side[me].migrations = migrations;
    return elapsed;
}

static void report(int trial, const char *condition, long round_trips, int64_t elapsed, int sides)
{
    struct lab_tally sum = shared->side[0].tally;
    int64_t migrations = shared->side[0].migrations;
    if (sides == 2) {
        sum.cpu_ns += shared->side[1].tally.cpu_ns;
        sum.voluntary += shared->side[1].tally.voluntary;
        sum.involuntary += shared->side[1].tally.involuntary;
        migrations += shared->side[1].migrations;
    }
    printf("block trial=%d condition=%s round_trips=%ld elapsed_ns=%ld cpu_ns=%ld voluntary=%ld involuntary=%ld "
           "migrations=%ld\n",
           trial, condition, round_trips, (long)elapsed, (long)sum.cpu_ns, (long)sum.voluntary,
           (long)sum.involuntary, (long)migrations);
}

static struct {
    const struct mechanism *by;
    long round_trips, trials;
} plan = {mechanisms, 1000, 5};

static void *partner(void *unused)
{
    shared->partner_tid = lab_tid();
    for (long trial = 0; trial < plan.trials; trial++) {
        pthread_barrier_wait(&shared->gate);
        play(plan.by, 1, plan.round_trips);
        pthread_barrier_wait(&shared->gate);
    }
    return unused;
}

static void alone_then_together(int trial)
{
    shared->turn = 0;
    int cpu = sched_getcpu();
    struct lab_tally before = lab_tally_now();
    int64_t start = lab_now_ns();
    for (long i = 0; i < 2 * plan.round_trips; i++) /* a round trip is two hand-overs */
        plan.by->alone();
    int64_t elapsed = lab_now_ns() - start;
    shared->side[0].tally = lab_tally_since(before);
    shared->side[0].migrations = sched_getcpu() != cpu;
    report(trial, "alone", plan.round_trips, elapsed, 1);

    shared->turn = 0;
    pthread_barrier_wait(&shared->gate);
    elapsed = play(plan.by, 0, plan.round_trips);
    pthread_barrier_wait(&shared->gate);
    report(trial, "exchange", plan.round_trips, elapsed, 2);
}

/* ---- the program ----------------------------------------------------------------------------------------- */

static void make_shared_state(void)
{
    shared = lab_shared(sizeof *shared);
    for (int side = 0; side < 2; side++) {
        if (pipe(shared->pipe[side]) < 0)
            lab_fail("pipe");
        shared->event[side] = eventfd(0, 0);
        if (shared->event[side] < 0)
            lab_fail("eventfd");
    }
    int scope = processes ? PTHREAD_PROCESS_SHARED : PTHREAD_PROCESS_PRIVATE;
    pthread_mutexattr_t mutex;
    pthread_condattr_t condition;
    pthread_barrierattr_t barrier;
    pthread_mutexattr_init(&mutex);
    pthread_condattr_init(&condition);
    pthread_barrierattr_init(&barrier);
    pthread_mutexattr_setpshared(&mutex, scope);
    pthread_condattr_setpshared(&condition, scope);
    pthread_barrierattr_setpshared(&barrier, scope);
    pthread_mutex_init(&shared->mutex, &mutex);
    pthread_cond_init(&shared->changed[0], &condition);
    pthread_cond_init(&shared->changed[1], &condition);
    pthread_barrier_init(&shared->gate, &barrier, 2);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"by", required_argument, 0, 'b'},     {"between", required_argument, 0, 'w'},
        {"round-trips", required_argument, 0, 'r'}, {"trials", required_argument, 0, 't'},
        {"deadline", required_argument, 0, 'd'},    {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'b':
            plan.by = NULL;
            for (size_t i = 0; i < sizeof mechanisms / sizeof *mechanisms; i++)
                if (!strcmp(optarg, mechanisms[i].name))
                    plan.by = &mechanisms[i];
            if (!plan.by)
                lab_fail("--by takes pipe, eventfd, futex, condvar, yield or poll, not '%s'", optarg);
            break;
        case 'w':
            processes = !strcmp(optarg, "processes");
            if (!processes && strcmp(optarg, "threads"))
                lab_fail("--between takes threads or processes, not '%s'", optarg);
            break;
        case 'r': plan.round_trips = lab_number("--round-trips", optarg, 1, 100000000); break;
        case 't': plan.trials = lab_number("--trials", optarg, 1, 100000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    make_shared_state();

    if (processes) {
        if (lab_fork() == 0) {
            partner(NULL);
            _exit(0);
        }
    } else {
        lab_thread(partner, NULL);
    }
    while (!shared->partner_tid)
        sched_yield();
    lab_barrier((pid_t[]){lab_tid(), shared->partner_tid}, 2);

    for (long trial = 0; trial < plan.trials; trial++)
        alone_then_together((int)trial);
    return lab_done();
}
