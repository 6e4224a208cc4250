/* ring.c - a ring of processes, each of which touches its own memory when the token comes by.
 *
 * This is the experiment of lmbench's lat_ctx.  N processes stand in a ring of pipes and pass one byte along.  Each
 * that gets it sums an array of its own, in order, and passes it on.  The time of one hop, less the time of the same
 * sum and the same system calls made by one process that never switches, is what lat_ctx calls a context switch.
 *
 * Beside it stands what lat_ctx leaves out: the same memory walked in random order, where no prefetcher helps; and a
 * second ring on the same CPU, as `lat_ctx -P 2` starts it.  The kernel's count of switches goes with every block.
 * With --event each process counts for itself while it goes round, and the counts of the ring are added up.
 */
#include "lab.h"
#include "perf.h"

#include <getopt.h>

enum { MOST = 64, LINE = 64 };

static struct {
    pthread_barrier_t gate;       /* the ring enters and leaves a block together */
    pthread_barrier_t crowd_gate; /* process 0 of the ring, and the head of the other ring */
    volatile int crowd;           /* the other ring goes round while this is set */
    struct lab_tally tally[MOST];
    struct lab_counts counts[MOST];
    pid_t tid[2 * MOST];
} *shared;

static long processes = 2, rings = 1, bytes = 0, laps = 10, alone_passes = 10, trials = 5;
static int random_walk;
static int hop[2][MOST][2]; /* hop[ring][i]: process i reads from it, the one before it writes */
static char *memory;
static struct lab_events events;

/* ---- what a process does with the token ------------------------------------------------------------------- */

static volatile long sink;

static void sum(void)
{
    long total = 0;
    for (const int *p = (const int *)memory, *end = (const int *)(memory + bytes); p < end; p++)
        total += *p;
    sink = total;
}

/* Every line of the memory holds the address of the next one, in random order: one load waits for the other. */
static void walk(void)
{
    void **at = (void **)memory;
    for (long lines = bytes / LINE; lines > 0; lines--)
        at = *at;
    sink = (long)at;
}

static void make_memory(unsigned seed)
{
    if (!bytes)
        return;
    memory = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        lab_fail("cannot map %ld bytes", bytes);
    memset(memory, 1, (size_t)bytes);
    if (!random_walk)
        return;
    long lines = bytes / LINE;
    long *order = malloc((size_t)lines * sizeof *order);
    if (!order)
        lab_fail("no memory");
    for (long i = 0; i < lines; i++)
        order[i] = i;
    for (long i = lines - 1; i > 0; i--) { /* Fisher and Yates */
        long j = rand_r(&seed) % (i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    for (long i = 0; i < lines; i++)
        *(void **)(memory + order[i] * LINE) = memory + order[(i + 1) % lines] * LINE;
    free(order);
}

static void touch(void)
{
    if (!bytes)
        return;
    if (random_walk)
        walk();
    else
        sum();
}

static void get(int ring, long me)
{
    char byte;
    if (read(hop[ring][me][0], &byte, 1) != 1)
        lab_fail("read");
}

static void put(int ring, long to)
{
    if (write(hop[ring][to][1], "x", 1) != 1)
        lab_fail("write");
}

/* ---- the blocks -------------------------------------------------------------------------------------------- */

/* Process 0 starts the token and waits for it; all others wait for it and pass it on.  Each touches its memory. */
static void go_one_lap(long me)
{
    long next = (me + 1) % processes;
    if (me == 0)
        put(0, next);
    get(0, me);
    touch();
    if (me != 0)
        put(0, next);
}

static int64_t go_round(long me)
{
    pthread_barrier_wait(&shared->gate);
    go_one_lap(me); /* not measured: memory may still be cold, and most sleep at the gate and not at their pipes */
    struct lab_tally before = lab_tally_now();
    lab_events_on(&events);
    int64_t start = lab_now_ns();
    for (long lap = 0; lap < laps; lap++)
        go_one_lap(me);
    int64_t elapsed = lab_now_ns() - start;
    lab_events_off(&events);
    shared->tally[me] = lab_tally_since(before);
    shared->counts[me] = lab_events_take(&events);
    pthread_barrier_wait(&shared->gate);
    return elapsed;
}

/* The same system calls and the same work by one process, which passes the token to itself.  The pipes from
 * process to process have no reader asleep now, so nothing switches. */
static void alone(long trial)
{
    static int own[2];
    if (!own[1] && pipe(own) < 0)
        lab_fail("pipe");
    char byte;
    lab_sleep_until(lab_now_ns() + 1000000); /* until the others have left one gate and sleep at the next */
    for (int warm = 0; warm < 2; warm++)
        touch();
    struct lab_tally before = lab_tally_now();
    lab_events_on(&events);
    int64_t start = lab_now_ns();
    for (long i = 0; i < alone_passes; i++) {
        if (write(own[1], "x", 1) != 1 || read(own[0], &byte, 1) != 1)
            lab_fail("pipe to myself");
        touch();
    }
    int64_t elapsed = lab_now_ns() - start;
    lab_events_off(&events);
    struct lab_tally tally = lab_tally_since(before);
    printf("block trial=%ld condition=alone hops=%ld elapsed_ns=%ld voluntary=%ld involuntary=%ld\n", trial,
           alone_passes, (long)elapsed, (long)tally.voluntary, (long)tally.involuntary);
    lab_events_report(&events);
}

static void together(long trial)
{
    if (rings == 2) {
        shared->crowd = 1;
        pthread_barrier_wait(&shared->crowd_gate);
    }
    int64_t elapsed = go_round(0);
    if (rings == 2) {
        shared->crowd = 0;
        pthread_barrier_wait(&shared->crowd_gate);
    }
    int64_t voluntary = 0, involuntary = 0;
    struct lab_counts sum = {0};
    for (long i = 0; i < processes; i++) {
        sum.enabled_ns += shared->counts[i].enabled_ns;
        sum.running_ns += shared->counts[i].running_ns;
        for (int event = 0; event < events.wanted; event++)
            sum.value[event] += shared->counts[i].value[event];
        voluntary += shared->tally[i].voluntary;
        involuntary += shared->tally[i].involuntary;
    }
    printf("block trial=%ld condition=ring hops=%ld elapsed_ns=%ld voluntary=%ld involuntary=%ld\n", trial,
           laps * processes, (long)elapsed, (long)voluntary, (long)involuntary);
    lab_events_print(&events, &sum);
}

/* A process of the other ring.  Its head starts laps as long as the first ring is at it. */
static void crowd(long me)
{
    for (;;) {
        if (me == 0) {
            pthread_barrier_wait(&shared->crowd_gate);
            while (shared->crowd) {
                put(1, 1 % processes);
                get(1, 0);
                touch();
            }
            pthread_barrier_wait(&shared->crowd_gate);
        } else {
            get(1, me);
            touch();
            put(1, (me + 1) % processes);
        }
    }
}

static void start_process(int ring, long me)
{
    if (lab_fork())
        return;
    make_memory((unsigned)(1 + ring * MOST + me));
    lab_events_open(&events); /* each process for itself */
    __atomic_store_n(&shared->tid[ring * processes + me], lab_tid(), __ATOMIC_RELEASE);
    if (ring)
        crowd(me);
    for (long trial = 0; trial < trials; trial++)
        go_round(me);
    _exit(0);
}

static void make_gate(pthread_barrier_t *gate, long parties)
{
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(gate, &attributes, (unsigned)parties);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"processes", required_argument, 0, 'n'}, {"rings", required_argument, 0, 'p'},
        {"bytes", required_argument, 0, 's'},     {"access", required_argument, 0, 'a'},
        {"laps", required_argument, 0, 'l'},      {"alone", required_argument, 0, 'o'},
        {"trials", required_argument, 0, 't'},    {"event", required_argument, 0, 'e'},
        {"deadline", required_argument, 0, 'd'},  {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'n': processes = lab_number("--processes", optarg, 2, MOST); break;
        case 'p': rings = lab_number("--rings", optarg, 1, 2); break;
        case 's': bytes = lab_number("--bytes", optarg, 0, 1L << 30) / LINE * LINE; break;
        case 'a':
            random_walk = !strcmp(optarg, "random");
            if (!random_walk && strcmp(optarg, "sequential"))
                lab_fail("--access takes random or sequential, not '%s'", optarg);
            break;
        case 'l': laps = lab_number("--laps", optarg, 1, 100000000); break;
        case 'o': alone_passes = lab_number("--alone", optarg, 1, 100000000); break;
        case 't': trials = lab_number("--trials", optarg, 1, 100000); break;
        case 'e': lab_events_add(&events, optarg); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    shared = lab_shared(sizeof *shared);
    make_gate(&shared->gate, processes);
    make_gate(&shared->crowd_gate, 2);
    for (int ring = 0; ring < rings; ring++)
        for (long i = 0; i < processes; i++)
            if (pipe(hop[ring][i]) < 0)
                lab_fail("pipe");
    for (int ring = 0; ring < rings; ring++)
        for (long i = ring ? 0 : 1; i < processes; i++)
            start_process(ring, i);
    make_memory(1);
    lab_events_open(&events);
    shared->tid[0] = lab_tid();
    for (long i = 0; i < rings * processes; i++)
        while (!__atomic_load_n(&shared->tid[i], __ATOMIC_ACQUIRE))
            sched_yield();
    lab_barrier(shared->tid, (int)(rings * processes));

    for (long trial = 0; trial < trials; trial++) {
        alone(trial);
        together(trial);
    }
    if (rings == 2) {
        signal(SIGCHLD, SIG_DFL); /* these ends are meant: the other ring would go on for ever */
        for (long i = 0; i < processes; i++)
            kill(shared->tid[processes + i], SIGTERM);
    }
    return lab_done();
}
