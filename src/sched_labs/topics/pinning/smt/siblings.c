/* siblings.c - two workers at once: how fast is each, compared with itself alone?
 *
 * A worker does one of two kinds of work, again and again, and counts how often:
 *
 *     alu      additions and shifts on eight numbers that do not depend on each other: it keeps the arithmetic
 *              units of a core as busy as one thread can, and touches no memory
 *     memory   a walk over a ring of cache lines in random order, each load giving the address of the next: most
 *              of the time it waits for memory, and the core has nothing to do for it
 *
 * In every trial first worker 0 works alone, then worker 1, then both at once, each for --window-ms.  Where the two
 * run is decided by who starts this program: on two threads of one core, on two cores, or on one CPU.
 *
 *     ready tid=WORKER0 tid=WORKER1
 *     window trial=0 worker=0 together=0 units=... elapsed_ns=... cpu_ns=... voluntary=... involuntary=... cpu=...
 */
#include "lab.h"
#include "ring.h"

#include <getopt.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { WORKERS = 2, ALU_STEPS = 512, LOADS = 256 };

static struct {
    bool memory[WORKERS];
    size_t working_set, line;
    long window_ms, trials, seed;
} plan = {.working_set = 1 << 20, .line = 64, .window_ms = 20, .trials = 3, .seed = 1};

static struct worker {
    _Atomic pid_t tid;
    void **at; /* where in its ring it stands */
    uint64_t numbers[8];
    long units;
    int64_t elapsed_ns;
    struct lab_tally tally;
    int cpu;
} workers[WORKERS];

static pthread_barrier_t gate;
static bool works[WORKERS]; /* who works in this window */
static int64_t start_ns, end_ns;

/* ---- the two kinds of work ---------------------------------------------------------------------------------- */

static void **make_ring(long number)
{
    size_t lines = plan.working_set / plan.line;
    uint64_t seed = RING_SEED ^ (uint64_t)number;
    return link_ring(small_pages(lines * plan.line), lines, plan.line, true, &seed);
}

/* One unit of work.  The empty asm keeps the compiler from computing in advance, and from using vectors. */
static void compute(uint64_t *n)
{
    for (int i = 0; i < ALU_STEPS; i++) {
        for (int k = 0; k < 8; k++)
            n[k] = (n[k] << 1) + (uint64_t)k;
        __asm__ volatile("" : "+r"(n[0]), "+r"(n[1]), "+r"(n[2]), "+r"(n[3]), "+r"(n[4]), "+r"(n[5]), "+r"(n[6]),
                         "+r"(n[7]));
    }
}

static void **chase(void **line)
{
    for (int i = 0; i < LOADS; i++)
        line = *line;
    __asm__ volatile("" : : "r"(line) : "memory");
    return line;
}

/* ---- the windows -------------------------------------------------------------------------------------------- */

static void work(struct worker *me, bool memory)
{
    struct worker w = *me; /* on this thread's own stack: no cache line is shared with the other worker */
    struct lab_tally before = lab_tally_now();
    int64_t now;
    w.units = 0;
    do {
        if (memory)
            w.at = chase(w.at);
        else
            compute(w.numbers);
        w.units++;
        now = lab_now_ns();
    } while (now < end_ns);
    w.elapsed_ns = now - start_ns; /* with the wait for its turn, if there was one */
    w.tally = lab_tally_since(before);
    w.cpu = sched_getcpu();
    *me = w;
}

static void *be_worker(void *argument)
{
    struct worker *me = argument;
    long number = me - workers;
    me->tid = lab_tid();
    for (;;) {
        pthread_barrier_wait(&gate);
        if (works[number])
            work(me, plan.memory[number]);
        pthread_barrier_wait(&gate);
    }
    return NULL;
}

static void window(long trial, bool first, bool second)
{
    works[0] = first;
    works[1] = second;
    start_ns = lab_now_ns();
    end_ns = start_ns + plan.window_ms * 1000000;
    pthread_barrier_wait(&gate);
    pthread_barrier_wait(&gate);
    for (int i = 0; i < WORKERS; i++)
        if (works[i])
            printf("window trial=%ld worker=%d together=%d units=%ld elapsed_ns=%ld cpu_ns=%ld voluntary=%ld "
                   "involuntary=%ld cpu=%d\n",
                   trial, i, first && second, workers[i].units, (long)workers[i].elapsed_ns,
                   (long)workers[i].tally.cpu_ns, (long)workers[i].tally.voluntary,
                   (long)workers[i].tally.involuntary, workers[i].cpu);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"work", required_argument, 0, 'k'},   {"working-set", required_argument, 0, 'w'},
        {"line", required_argument, 0, 'l'},   {"window-ms", required_argument, 0, 'm'},
        {"trials", required_argument, 0, 't'}, {"seed", required_argument, 0, 's'},
        {"deadline", required_argument, 0, 'd'}, {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    int given = 0;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'k':
            if (given == WORKERS)
                lab_fail("--work can be given twice");
            plan.memory[given] = !strcmp(optarg, "memory");
            if (!plan.memory[given++] && strcmp(optarg, "alu"))
                lab_fail("--work takes alu or memory, not '%s'", optarg);
            break;
        case 'w': plan.working_set = (size_t)lab_number("--working-set", optarg, 4096, 1L << 40); break;
        case 'l': plan.line = (size_t)lab_number("--line", optarg, sizeof(void *), 4096); break;
        case 'm': plan.window_ms = lab_number("--window-ms", optarg, 1, 100000); break;
        case 't': plan.trials = lab_number("--trials", optarg, 1, 100000); break;
        case 's': plan.seed = lab_number("--seed", optarg, 0, INT32_MAX); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);

    pthread_barrier_init(&gate, NULL, WORKERS + 1);
    for (int i = 0; i < WORKERS; i++) {
        if (plan.memory[i])
            workers[i].at = make_ring(plan.seed + i);
        lab_thread(be_worker, &workers[i]);
    }
    for (int i = 0; i < WORKERS; i++)
        while (!workers[i].tid)
            sched_yield();
    lab_barrier((pid_t[]){workers[0].tid, workers[1].tid}, WORKERS);
    for (long trial = 0; trial < plan.trials; trial++) {
        bool turned = trial % 2; /* the order turns round from trial to trial, so that slow drift cancels */
        window(trial, !turned, turned);
        window(trial, true, true);
        window(trial, turned, !turned);
    }
    return lab_done();
}
