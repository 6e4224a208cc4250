/* holder.c - a process waits for a lock whose holder's control group has a CPU quota: for how long?
 *
 * Two processes.  Whoever started this program puts the first of them into a group and leaves the other one outside:
 *
 *     holder   takes the lock again and again, for --hold-us of its work each time; works up to --apart-us before
 *     waiter   wants the lock a moment after the holder has taken it, and sleeps otherwise
 *
 * The lock is one of
 *
 *     mutex    the C library's ordinary mutex, in memory that both processes share
 *     inherit  the same with PTHREAD_PRIO_INHERIT; the waiter is SCHED_FIFO of --priority
 *     file     the kernel's own lock of a file (of its inode): the holder is in one long write(), the waiter writes a
 *              byte to the same file, which is in memory and has no name
 *
 *     ready tid=HOLDER tid=WAITER
 *     hand_over wait_ns=... hold_cpu_ns=...    one for each time
 *         wait_ns       from when the waiter asked for the lock until it had it (file: until its byte was written)
 *         hold_cpu_ns   CPU time that the holder needed for what it did with the lock
 */
#include "lab.h"
#include "work.h"

#include <getopt.h>
#include <semaphore.h>
#include <sys/mman.h>
#include <sys/uio.h>

enum { MOST_HAND_OVERS = 1000, PIECE = 1 << 20, MOST_PIECES = 128 };
enum lock { MUTEX, INHERIT, IN_FILE, LOCKS };
static const char *const locks[LOCKS] = {"mutex", "inherit", "file"};

static struct {
    enum lock lock;
    long priority, hold_us, apart_us, hand_overs, seed;
} plan = {MUTEX, 50, 4000, 400, 4, 1};

static struct shared {
    pthread_mutex_t mutex;
    sem_t ready, asked;
    _Atomic long served; /* how often the waiter has had the lock */
    struct hand_over {
        int64_t wait_ns, hold_cpu_ns;
    } hand_overs[MOST_HAND_OVERS];
} *shared;

static double steps_in_us;
static int file;
static struct iovec pieces[MOST_PIECES]; /* one piece of memory, as often as it is written */
static int pieces_in_hold;

/* One write(), under the file's lock from its beginning to its end. */
static void write_pieces(int count)
{
    if (pwritev(file, pieces, count, 0) != (ssize_t)count * PIECE)
        lab_fail("cannot write %d MiB to a file in memory", count);
}

/* How many pieces take --hold-us: a guess, and better ones from how long the guess before took.  The first write of
 * each size is not timed, because it finds the memory. */
static void size_the_write(void)
{
    char *piece = lab_shared(PIECE);
    memset(piece, 1, PIECE);
    for (int i = 0; i < MOST_PIECES; i++)
        pieces[i] = (struct iovec){piece, PIECE};
    file = memfd_create("written by two", MFD_CLOEXEC);
    pieces_in_hold = 4;
    for (int guess = 0; guess < 3; guess++) {
        int64_t best_ns = INT64_MAX;
        write_pieces(pieces_in_hold);
        for (int i = 0; i < 3; i++) {
            int64_t before_ns = lab_now_ns();
            write_pieces(pieces_in_hold);
            int64_t took_ns = lab_now_ns() - before_ns;
            best_ns = took_ns < best_ns ? took_ns : best_ns;
        }
        int64_t count = plan.hold_us * 1000 * pieces_in_hold / best_ns;
        pieces_in_hold = count < 1 ? 1 : count > MOST_PIECES ? MOST_PIECES : (int)count;
    }
    write_pieces(pieces_in_hold);
}

/* It never sleeps: where a thread wakes up the kernel looks at its quota, too, and would stop it without the lock.  So
 * does the kernel where a thread reads its CPU clock, which is therefore read under the lock where that is a mutex. */
static void be_holder(void)
{
    unsigned seed = (unsigned)plan.seed;
    for (long i = 0; i < plan.hand_overs; i++) {
        do
            work((long)(steps_in_us * (double)(rand_r(&seed) % (plan.apart_us + 1))));
        while (shared->served < i);
        sem_post(&shared->asked);
        if (plan.lock != IN_FILE)
            pthread_mutex_lock(&shared->mutex);
        int64_t before_ns = lab_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        if (plan.lock == IN_FILE)
            write_pieces(pieces_in_hold);
        else
            work((long)(steps_in_us * (double)plan.hold_us));
        shared->hand_overs[i].hold_cpu_ns = lab_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before_ns;
        if (plan.lock != IN_FILE)
            pthread_mutex_unlock(&shared->mutex);
    }
}

static void be_waiter(void)
{
    if (plan.lock == INHERIT && sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){(int)plan.priority}))
        lab_fail("cannot have the real-time priority %ld", plan.priority);
    sem_post(&shared->ready);
    for (long i = 0; i < plan.hand_overs; i++) {
        sem_wait(&shared->asked);
        lab_sleep_until(lab_now_ns() + plan.hold_us * 1000 / 10); /* by then the holder has the lock */
        int64_t asked_ns = lab_now_ns();
        if (plan.lock != IN_FILE)
            pthread_mutex_lock(&shared->mutex);
        else if (pwrite(file, "", 1, 0) != 1)
            lab_fail("cannot write a byte to a file in memory");
        shared->hand_overs[i].wait_ns = lab_now_ns() - asked_ns;
        if (plan.lock != IN_FILE)
            pthread_mutex_unlock(&shared->mutex);
        shared->served++;
    }
}

static enum lock lock_named(const char *name)
{
    for (enum lock lock = 0; lock < LOCKS; lock++)
        if (!strcmp(name, locks[lock]))
            return lock;
    errno = 0;
    lab_fail("--lock takes mutex, inherit or file, not '%s'", name);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"lock", required_argument, 0, 'l'},     {"priority", required_argument, 0, 'p'},
        {"hold-us", required_argument, 0, 'u'},  {"apart-us", required_argument, 0, 'a'},
        {"hand-overs", required_argument, 0, 'o'}, {"seed", required_argument, 0, 's'},
        {"deadline", required_argument, 0, 'd'}, {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'l': plan.lock = lock_named(optarg); break;
        case 'p': plan.priority = lab_number("--priority", optarg, 1, 50); break;
        case 'u': plan.hold_us = lab_number("--hold-us", optarg, 100, 10000); break;
        case 'a': plan.apart_us = lab_number("--apart-us", optarg, 0, 100000); break;
        case 'o': plan.hand_overs = lab_number("--hand-overs", optarg, 1, MOST_HAND_OVERS); break;
        case 's': plan.seed = lab_number("--seed", optarg, 0, 1000000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    /* Nothing here is real-time for longer than the lock is held; if it were, the kernel would end it. */
    setrlimit(RLIMIT_RTTIME, &(struct rlimit){1000000, 1000000});
    shared = lab_shared(sizeof *shared);
    steps_in_us = steps_per_us();
    if (plan.lock == IN_FILE)
        size_the_write();
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    if (plan.lock == INHERIT && pthread_mutexattr_setprotocol(&kind, PTHREAD_PRIO_INHERIT))
        lab_fail("no mutex with priority inheritance");
    pthread_mutex_init(&shared->mutex, &kind);
    sem_init(&shared->ready, 1, 0);
    sem_init(&shared->asked, 1, 0);

    pid_t waiter = lab_fork();
    if (!waiter) {
        be_waiter();
        _exit(0);
    }
    sem_wait(&shared->ready);
    lab_barrier((pid_t[]){getpid(), waiter}, 2);
    be_holder();
    while (shared->served < plan.hand_overs)
        sched_yield();
    for (long i = 0; i < plan.hand_overs; i++) {
        const struct hand_over *this = &shared->hand_overs[i];
        printf("hand_over wait_ns=%ld hold_cpu_ns=%ld\n", (long)this->wait_ns, (long)this->hold_cpu_ns);
    }
    return lab_done();
}
