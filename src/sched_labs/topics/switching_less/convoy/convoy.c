/* convoy.c - many producers put items into one queue: what does the lock make of them?
 *
 * Every producer does the same: lock, put one item, unlock, read the clock and count the time since the item before,
 * and at once the next.  Only the lock differs; to read the clock and to count is a part of each item's time.
 *
 *     fifo      strictly in order of arrival: tickets, and a futex for each waiter; whoever comes while somebody
 *               waits has to queue, even if the lock is free at that moment
 *     try       the same lock, but a producer first tries --tries times to take it past the queue
 *     mutex     the default mutex of the C library: whoever comes first when it is free gets it, and nobody spins
 *     adaptive  the same with a short spin before sleeping (PTHREAD_MUTEX_ADAPTIVE_NP)
 *     spin      never sleeps
 *
 * The lock is held while the producers arrive, as if its holder had lost the CPU, so that every lock begins with
 * everybody waiting.  The clock starts when it is released.
 *
 *     ready tid=PRODUCER tid=PRODUCER ...
 *     run lock=fifo items=... elapsed_ns=... cpu_ns=... user_ns=... system_ns=... voluntary=... involuntary=...
 *         turns=... jain_ppm=... finished=1
 *         cpu_ns     CPU time of all producers since the clock started, as are the switches; user_ns and system_ns are
 *                    the kernel's samples of it, taken at ticks, each producer's from its first item on
 *         turns      how often the queue shows another producer than at the item before
 *         jain_ppm   Jain's index of the producers' shares when the first of them had put all of its items,
 *                    in millionths: 1,000,000 is equal shares, 1,000,000 / producers is one who got everything
 *         finished   0 where the time ran out first
 *     wait lock=fifo low_ns=... high_ns=... items=...    one bin of the time from one item to the next of a producer
 *
 * Every lock gets at most --budget-ms, so that no lock can hang the machine; with fewer CPUs than producers the
 * spinlock may well need that.
 */
#include "lab.h"

#include <getopt.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MOST_PRODUCERS = 64, BIN_BITS = 4, BINS = 64 << BIN_BITS, ARRIVE_US = 20000 };

static struct {
    long producers, items, tries, budget_ms;
} plan = {16, 16000, 10, 1000};

/* ---- the queue: what a lock protects --------------------------------------------------------------------- */

static uint8_t *queue; /* item: the number of the producer who put it */
static long queued;

/* ---- the locks ------------------------------------------------------------------------------------------- */

static struct slot {
    _Alignas(64) _Atomic uint32_t woken, asleep;
} slots[MOST_PRODUCERS];
static _Alignas(64) _Atomic uint32_t tail, head, held;
static _Alignas(64) _Atomic uint32_t spin;
static pthread_mutex_t plain, adaptive;
static _Atomic int64_t start_ns, end_ns;

static void futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    if (syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0) < 0 && errno != EAGAIN &&
        errno != EINTR)
        lab_fail("futex");
}

static bool fifo_try(void)
{
    uint32_t free = 0;
    return atomic_compare_exchange_strong(&held, &free, 1);
}

static void fifo_lock(void)
{
    uint32_t ticket = atomic_fetch_add(&tail, 1);
    struct slot *mine = &slots[ticket % MOST_PRODUCERS];
    for (;;) {
        uint32_t seen = atomic_load(&mine->woken);
        if (atomic_load(&head) == ticket && fifo_try())
            break;
        atomic_store(&mine->asleep, 1);
        futex(&mine->woken, FUTEX_WAIT, seen); /* returns at once if somebody has woken us since we looked */
    }
    atomic_store(&head, ticket + 1);
}

static void fifo_unlock(void)
{
    atomic_store(&held, 0);
    uint32_t first = atomic_load(&head);
    if (first != atomic_load(&tail)) { /* somebody waits: it is that one's turn, and it must be woken for it */
        struct slot *next = &slots[first % MOST_PRODUCERS];
        atomic_fetch_add(&next->woken, 1);
        if (atomic_exchange(&next->asleep, 0))
            futex(&next->woken, FUTEX_WAKE, 1);
    }
}

static void try_lock(void)
{
    for (long i = 0; i < plan.tries; i++)
        if (fifo_try())
            return;
    fifo_lock();
}

static void plain_lock(void) { pthread_mutex_lock(&plain); }
static void plain_unlock(void) { pthread_mutex_unlock(&plain); }
static void adaptive_lock(void) { pthread_mutex_lock(&adaptive); }
static void adaptive_unlock(void) { pthread_mutex_unlock(&adaptive); }

static void relax(void)
{
#if defined __x86_64__ || defined __i386__
    __builtin_ia32_pause();
#elif defined __aarch64__
    __asm__ volatile("yield");
#endif
}

static void spin_lock(void)
{
    while (atomic_exchange(&spin, 1))
        while (atomic_load_explicit(&spin, memory_order_relaxed))
            relax();
}

static void spin_unlock(void) { atomic_store(&spin, 0); }

static const struct lock {
    const char *name;
    void (*lock)(void), (*unlock)(void);
} locks[] = {
    {"fifo", fifo_lock, fifo_unlock},
    {"try", try_lock, fifo_unlock},
    {"mutex", plain_lock, plain_unlock},
    {"adaptive", adaptive_lock, adaptive_unlock},
    {"spin", spin_lock, spin_unlock},
};
enum { LOCKS = sizeof locks / sizeof *locks };

/* ---- the producers --------------------------------------------------------------------------------------- */

static struct producer {
    _Atomic pid_t tid;
    clockid_t cpu_clock;
    long items, bins[BINS];
    int64_t cpu_ns, user_ns, system_ns, voluntary, involuntary;
} producers[MOST_PRODUCERS];

static const struct lock *chosen[LOCKS];
static int chosen_count;
static pthread_barrier_t gate;

static int64_t ns_of(struct timeval t)
{
    return t.tv_sec * 1000000000LL + t.tv_usec * 1000LL;
}

/* Sixteen bins in each power of two; the first sixteen numbers have one each. */
static int bin_of(int64_t ns)
{
    int shift = ns < (1 << BIN_BITS) ? 0 : 63 - __builtin_clzll((unsigned long long)ns) - BIN_BITS;
    return (shift << BIN_BITS) + (int)(ns >> shift);
}

static int64_t low_of(int bin)
{
    int shift = bin < (2 << BIN_BITS) ? 0 : (bin >> BIN_BITS) - 1;
    return (int64_t)(bin - (shift << BIN_BITS)) << shift;
}

static void produce(const struct lock *by, int number)
{
    struct producer *me = &producers[number];
    long share = plan.items / plan.producers;
    memset(me->bins, 0, sizeof me->bins);
    me->items = 0;
    struct rusage before, after;
    int64_t last = 0;
    while (me->items < share && last < end_ns) {
        by->lock();
        if (last == 0) {
            getrusage(RUSAGE_THREAD, &before);
            last = start_ns;
        }
        queue[queued++] = (uint8_t)number;
        by->unlock();
        me->items++;
        int64_t now = lab_now_ns();
        me->bins[bin_of(now - last)]++;
        last = now;
    }
    me->cpu_ns = lab_clock_ns(CLOCK_THREAD_CPUTIME_ID) - me->cpu_ns;
    getrusage(RUSAGE_THREAD, &after);
    me->user_ns = ns_of(after.ru_utime) - ns_of(before.ru_utime);
    me->system_ns = ns_of(after.ru_stime) - ns_of(before.ru_stime);
    me->voluntary = after.ru_nvcsw - me->voluntary;
    me->involuntary = after.ru_nivcsw - me->involuntary;
}

static void read_switches(struct producer *one)
{
    char path[64], line[256];
    snprintf(path, sizeof path, "/proc/self/task/%d/status", (int)one->tid);
    FILE *status = fopen(path, "re");
    if (!status)
        lab_fail("%s", path);
    while (fgets(line, sizeof line, status)) {
        sscanf(line, "voluntary_ctxt_switches: %" SCNd64, &one->voluntary);
        sscanf(line, "nonvoluntary_ctxt_switches: %" SCNd64, &one->involuntary);
    }
    fclose(status);
}

/* What the producers did until now was to arrive.  They cannot note it themselves: those that wait for their first
 * turn spin or sleep when the clock starts. */
static void note_start(void)
{
    for (long i = 0; i < plan.producers; i++)
        read_switches(&producers[i]);
    for (long i = 0; i < plan.producers; i++) /* last, for a spinner's goes on */
        producers[i].cpu_ns = lab_clock_ns(producers[i].cpu_clock);
}

static void *be_producer(void *argument)
{
    int number = (int)(intptr_t)argument;
    pthread_getcpuclockid(pthread_self(), &producers[number].cpu_clock);
    producers[number].tid = lab_tid();
    for (int i = 0; i < chosen_count; i++) {
        pthread_barrier_wait(&gate);
        produce(chosen[i], number);
        pthread_barrier_wait(&gate);
    }
    return NULL;
}

static void report(const struct lock *by, int64_t elapsed_ns)
{
    long share = plan.items / plan.producers, turns = 0, until = 0, counts[MOST_PRODUCERS] = {0};
    for (long i = 0; i < queued; i++)
        turns += i == 0 || queue[i] != queue[i - 1];
    while (until < queued && counts[queue[until]]++ < share - 1)
        until++;
    double sum = 0, squares = 0;
    for (long i = 0; i < plan.producers; i++) {
        sum += (double)counts[i];
        squares += (double)counts[i] * (double)counts[i];
    }
    struct producer all = {0};
    for (long i = 0; i < plan.producers; i++) {
        all.cpu_ns += producers[i].cpu_ns;
        all.user_ns += producers[i].user_ns;
        all.system_ns += producers[i].system_ns;
        all.voluntary += producers[i].voluntary;
        all.involuntary += producers[i].involuntary;
        for (int bin = 0; bin < BINS; bin++)
            all.bins[bin] += producers[i].bins[bin];
    }
    double jain = squares > 0 ? sum * sum / ((double)plan.producers * squares) : 1;
    printf("run lock=%s items=%ld elapsed_ns=%" PRId64 " cpu_ns=%" PRId64 " user_ns=%" PRId64 " system_ns=%" PRId64
           " voluntary=%" PRId64 " involuntary=%" PRId64 " turns=%ld jain_ppm=%.0f finished=%d\n",
           by->name, queued, elapsed_ns, all.cpu_ns, all.user_ns, all.system_ns, all.voluntary, all.involuntary, turns,
           1e6 * jain, queued == share * plan.producers);
    for (int bin = 0; bin < BINS; bin++)
        if (all.bins[bin])
            printf("wait lock=%s low_ns=%" PRId64 " high_ns=%" PRId64 " items=%ld\n", by->name, low_of(bin),
                   low_of(bin + 1), all.bins[bin]);
}

static void choose(char *names)
{
    for (char *name = strtok(names, ","); name; name = strtok(NULL, ",")) {
        int i = 0;
        while (i < LOCKS && strcmp(name, locks[i].name))
            i++;
        if (i == LOCKS || chosen_count == LOCKS)
            lab_fail("--locks takes each of fifo, try, mutex, adaptive and spin once, not '%s'", name);
        chosen[chosen_count++] = &locks[i];
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"locks", required_argument, 0, 'l'},     {"producers", required_argument, 0, 'p'},
        {"items", required_argument, 0, 'i'},     {"tries", required_argument, 0, 't'},
        {"budget-ms", required_argument, 0, 'b'}, {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'l': choose(optarg); break;
        case 'p': plan.producers = lab_number("--producers", optarg, 1, MOST_PRODUCERS); break;
        case 'i': plan.items = lab_number("--items", optarg, 1, 100000000); break;
        case 't': plan.tries = lab_number("--tries", optarg, 1, 100000); break;
        case 'b': plan.budget_ms = lab_number("--budget-ms", optarg, 1, 600000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    if (!chosen_count)
        choose((char[]){"fifo,try,mutex,adaptive,spin"});
    if (plan.items < plan.producers)
        plan.items = plan.producers;
    queue = lab_shared((size_t)plan.items);
    memset(queue, 1, (size_t)plan.items); /* no page fault later */
    pthread_mutexattr_t kind;
    pthread_mutexattr_init(&kind);
    pthread_mutex_init(&plain, &kind);
    pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&adaptive, &kind);
    pthread_barrier_init(&gate, NULL, (unsigned)plan.producers + 1);

    pthread_t threads[MOST_PRODUCERS];
    pid_t tids[MOST_PRODUCERS];
    for (long i = 0; i < plan.producers; i++) {
        threads[i] = lab_thread(be_producer, (void *)(intptr_t)i);
        while (!producers[i].tid)
            sched_yield();
        tids[i] = producers[i].tid;
    }
    lab_barrier(tids, (int)plan.producers);

    for (int i = 0; i < chosen_count; i++) {
        queued = 0;
        end_ns = INT64_MAX;
        chosen[i]->lock();
        pthread_barrier_wait(&gate);
        usleep(ARRIVE_US);
        note_start();
        start_ns = lab_now_ns();
        end_ns = start_ns + plan.budget_ms * 1000000;
        chosen[i]->unlock();
        pthread_barrier_wait(&gate);
        report(chosen[i], lab_now_ns() - start_ns);
    }
    for (long i = 0; i < plan.producers; i++)
        pthread_join(threads[i], NULL);
    return lab_done();
}
