/* ipc.c - one program does less work for each second of CPU time; three causes, and one that is none.
 *
 * The victim walks a ring of lines in random order, for --block-ms, and counts the lines.  Meanwhile, by --condition:
 *
 *     alone      nobody else does anything
 *     switches   after every --stint lines it hands its CPU to a partner, who touches --partner bytes and hands it back
 *     bare       the same, to a partner who touches nothing and hands it back at once
 *     sibling    another thread walks a ring of its own: put it on the SMT sibling of the victim's CPU
 *     streamer   another thread reads and writes --stream bytes in order, over and over: put it on another core
 *     busy       that other core computes, and touches no memory: as busy as with the streamer
 *
 *     ready tid=VICTIM tid=PARTNER tid=SIBLING tid=NEIGHBOUR
 *     block trial=0 condition=alone lines=... elapsed_ns=... cpu_ns=... voluntary=... involuntary=... wait_ns=...
 *         all of the victim; wait_ns: it could run and had no CPU, left out where the kernel does not tell
 *     events ...      with --event: what was counted for the victim meanwhile (perf.h)
 *
 * Every block begins alike: the victim walks its ring alone until it is as near as it fits, and it does not stop
 * while the others get under way.  Where a cache is shared, that decides the outcome: lines that are used often stay
 * in it beside a streamer, but a ring that was pushed out takes so long to walk that it is pushed out again.
 *
 * Each block but the first waits for a line on standard input, so that whoever watches can look before and after.
 */
#include "lab.h"
#include "perf.h"
#include "ring.h"

#include <fcntl.h>
#include <getopt.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

enum condition { ALONE, SWITCHES, BARE, SIBLING, STREAMER, BUSY, CONDITIONS };
static const char *const names[CONDITIONS] = {"alone", "switches", "bare", "sibling", "streamer", "busy"};
enum { START_NS = 8000000, PIECE_LINES = 4096 };

static struct {
    size_t set, line, partner, stream;
    long stint, block_ms, trials;
    enum condition condition[CONDITIONS];
    int conditions;
} plan = {.set = 1 << 20, .line = 64, .partner = 1 << 20, .stream = 16 << 20, .stint = 20000, .block_ms = 60,
          .trials = 3};

enum { PARTNER, SIBLING_THREAD, NEIGHBOUR, HELPERS };

static struct helper {
    pthread_t thread;
    _Atomic pid_t tid;
    sem_t go, gone;
} helpers[HELPERS];

static atomic_bool stop;
static enum condition now;
static struct lab_events events;

/* ---- memory ------------------------------------------------------------------------------------------------- */

static char *map(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        lab_fail("cannot map %zu bytes", bytes);
    memset(memory, 0, bytes);
    return memory;
}

/* A ring of lines in random order: each load gives the address of the next. */
static void **make_ring(void)
{
    uint64_t seed = RING_SEED;
    return link_ring(map(plan.set), plan.set / plan.line, plan.line, true, &seed);
}

/* ---- the others --------------------------------------------------------------------------------------------- */

static void wait_on(sem_t *semaphore)
{
    while (sem_wait(semaphore) && errno == EINTR)
        ;
}

/* Takes turns with the victim; the victim's turn ends with a post to `go`, ours with one to `gone`. */
static void *be_partner(void *argument)
{
    struct helper *me = argument;
    volatile char *memory = map(plan.partner + 1);
    me->tid = lab_tid();
    for (;;) {
        wait_on(&me->go);
        for (size_t i = 0; i < plan.partner && now == SWITCHES; i += plan.line)
            memory[i]++;
        sem_post(&me->gone);
    }
    return NULL;
}

static void *be_sibling(void *argument)
{
    struct helper *me = argument;
    void **line = make_ring();
    me->tid = lab_tid();
    for (;;) {
        wait_on(&me->go);
        while (!atomic_load(&stop))
            line = walk_ring(line, 1000);
        sem_post(&me->gone);
    }
    return NULL;
}

static void *be_neighbour(void *argument)
{
    struct helper *me = argument;
    uint64_t *memory = (uint64_t *)map(plan.stream), x = 1;
    size_t words = plan.stream / sizeof *memory, at = 0;
    me->tid = lab_tid();
    for (;;) {
        wait_on(&me->go);
        while (!atomic_load(&stop)) {
            if (now == STREAMER) {
                for (size_t i = 0; i < 4096; i++)
                    memory[at + i]++;
                at = at + 2 * 4096 > words ? 0 : at + 4096;
            } else {
                for (int i = 0; i < 1000; i++) {
                    x = x * 6364136223846793005u + 1442695040888963407u;
                    __asm__ volatile("" : "+r"(x));
                }
            }
        }
        sem_post(&me->gone);
    }
    return NULL;
}

static int helper_of(enum condition condition)
{
    return condition == SIBLING ? SIBLING_THREAD : condition == STREAMER || condition == BUSY ? NEIGHBOUR : -1;
}

/* ---- the victim --------------------------------------------------------------------------------------------- */

/* How long this thread has waited for a CPU so far; -1 where the kernel does not tell. */
static long waited_ns(void)
{
    char text[128];
    long ns;
    int file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t size = read(file, text, sizeof text - 1);
    text[size > 0 ? size : 0] = 0;
    close(file);
    return sscanf(text, "%*d %ld", &ns) == 1 ? ns : -1;
}

static void hand_over(void)
{
    sem_post(&helpers[PARTNER].go);
    wait_on(&helpers[PARTNER].gone);
}

static void measure(long trial, enum condition condition, void **line)
{
    int helper = helper_of(condition);
    long round = (long)(plan.set / plan.line);
    now = condition;
    atomic_store(&stop, false);
    line = walk_ring(line, (size_t)round); /* not counted, like all until the clock starts */
    if (helper >= 0)
        sem_post(&helpers[helper].go);
    for (int64_t under_way = lab_now_ns() + START_NS; lab_now_ns() < under_way;)
        line = walk_ring(line, PIECE_LINES);
    bool hands_over = condition == SWITCHES || condition == BARE;
    if (hands_over)
        hand_over(); /* the first stint that is counted comes after one, as all others do */
    long waited = waited_ns(), lines = 0;
    struct lab_tally tally = lab_tally_now();
    lab_events_on(&events);
    int64_t start = lab_now_ns(), until = start + plan.block_ms * 1000000, end;
    do {
        line = walk_ring(line, (size_t)plan.stint);
        lines += plan.stint;
        if (hands_over)
            hand_over();
    } while ((end = lab_now_ns()) < until);
    lab_events_off(&events);
    tally = lab_tally_since(tally);
    waited = waited < 0 ? -1 : waited_ns() - waited;
    atomic_store(&stop, true);
    if (helper >= 0)
        wait_on(&helpers[helper].gone);
    printf("block trial=%ld condition=%s lines=%ld elapsed_ns=%ld cpu_ns=%ld voluntary=%ld involuntary=%ld", trial,
           names[condition], lines, (long)(end - start), (long)tally.cpu_ns, (long)tally.voluntary,
           (long)tally.involuntary);
    if (waited >= 0)
        printf(" wait_ns=%ld", waited);
    putchar('\n');
    lab_events_report(&events);
    fflush(stdout);
}

static enum condition condition_named(const char *name)
{
    for (int i = 0; i < CONDITIONS; i++)
        if (!strcmp(name, names[i]))
            return (enum condition)i;
    lab_fail("--condition takes alone, switches, bare, sibling, streamer or busy, not '%s'", name);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"condition", required_argument, 0, 'c'}, {"set", required_argument, 0, 's'},
        {"line", required_argument, 0, 'l'},      {"partner", required_argument, 0, 'p'},
        {"stream", required_argument, 0, 'm'},    {"stint", required_argument, 0, 'n'},
        {"block-ms", required_argument, 0, 'b'},  {"trials", required_argument, 0, 't'},
        {"event", required_argument, 0, 'e'},     {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'c':
            if (plan.conditions == CONDITIONS)
                lab_fail("--condition can be given %d times", CONDITIONS);
            plan.condition[plan.conditions++] = condition_named(optarg);
            break;
        case 's': plan.set = (size_t)lab_number("--set", optarg, 4096, 1L << 32); break;
        case 'l': plan.line = (size_t)lab_number("--line", optarg, sizeof(void *), 4096); break;
        case 'p': plan.partner = (size_t)lab_number("--partner", optarg, 0, 1L << 32); break;
        case 'm': plan.stream = (size_t)lab_number("--stream", optarg, 1 << 16, 1L << 32); break;
        case 'n': plan.stint = lab_number("--stint", optarg, 1, 1L << 32); break;
        case 'b': plan.block_ms = lab_number("--block-ms", optarg, 1, 60000); break;
        case 't': plan.trials = lab_number("--trials", optarg, 1, 10000); break;
        case 'e': lab_events_add(&events, optarg); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    if (!plan.conditions)
        for (int i = 0; i < CONDITIONS; i++)
            plan.condition[plan.conditions++] = (enum condition)i;
    lab_begin(deadline_s);

    void *(*const roles[HELPERS])(void *) = {be_partner, be_sibling, be_neighbour};
    pid_t tids[HELPERS + 1] = {lab_tid()};
    for (int i = 0; i < HELPERS; i++) {
        sem_init(&helpers[i].go, 0, 0);
        sem_init(&helpers[i].gone, 0, 0);
        helpers[i].thread = lab_thread(roles[i], &helpers[i]);
        while (!helpers[i].tid)
            usleep(100);
        tids[i + 1] = helpers[i].tid;
    }
    void **ring = make_ring();
    lab_events_open(&events);
    lab_barrier(tids, HELPERS + 1);
    /* The order turns round from trial to trial, so that slow drift cancels. */
    for (long trial = 0; trial < plan.trials; trial++)
        for (int i = 0; i < plan.conditions; i++) {
            if (trial + i > 0)
                lab_wait_for_a_line();
            measure(trial, plan.condition[trial % 2 ? plan.conditions - 1 - i : i], ring);
        }
    return lab_done(); /* the helpers end with us */
}
