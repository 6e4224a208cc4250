/* chase.c - how much slower is a thread's own memory just after it was switched out and in again?
 *
 * The victim walks its working set, one load per cache line, each load giving the address of the next, so that
 * no two loads can overlap.  One walk over the whole set is a pass.  Three conditions take turns:
 *
 *     alone         pass after pass; between two passes the system calls of a hand-over, but no switch
 *     after_switch  between two passes the CPU is handed to the partner and back; the partner
 *                   touches its own memory meanwhile (with 0 bytes: nothing, it hands back at once)
 *
 * A pass that follows a switch finds in the caches what the partner (and the kernel) left of the set.
 * The walk is in random order unless asked otherwise: in sequential order the hardware prefetcher runs ahead
 * of the loads and hides most of what the switch cost.
 *
 * Three options change what happens between two clock readings:
 *
 *     --stint N     the victim walks N lines for each hand-over instead of its whole set
 *     --burst N     N hand-overs follow each other at once, and then N stints: as many of both, but bunched
 *     --blocks N    instead of walking its ring, the victim reads lines drawn at random, and looks at the clock
 *                   after each of N blocks of --block reads: how the time per read falls after a switch
 *
 * With --event the victim counts events while it walks, and nowhere else (perf.h); one record for each block.
 */
#include "lab.h"
#include "perf.h"
#include "ring.h"

#include <getopt.h>
#include <stdbool.h>

enum { MOST_PARTNERS = 16, WARM_ROUNDS = 32, WARM_NS = 150000000 };

static struct {
    size_t working_set, line;
    size_t partner[MOST_PARTNERS];
    int partners;
    bool random_order, processes, shared_set;
    long passes, trials, seed, stint, burst, blocks, block;
} plan = {.working_set = 256 << 10, .line = 64, .random_order = true, .processes = true,
          .passes = 20, .trials = 7, .seed = 1, .burst = 1, .block = 256};

/* Two pipes carry the turn; a third takes the same system calls when the victim is alone. */
static struct {
    int to_partner[2], to_victim[2], to_self[2];
    pid_t partner_tid;
} *shared;

/* ---- memory ---------------------------------------------------------------------------------------------- */

/* Memory that is really there: zeroes written, in the smallest pages on every machine, so that the TLB counts. */
static char *map(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | (plan.shared_set ? MAP_SHARED : MAP_PRIVATE),
                        -1, 0);
    if (memory == MAP_FAILED)
        lab_fail("cannot map %zu bytes", bytes);
    madvise(memory, bytes, MADV_NOHUGEPAGE);
#ifdef MADV_POPULATE_WRITE /* Linux 5.14: all pages in one call, which takes half of the time of a fault for each */
    madvise(memory, bytes, MADV_POPULATE_WRITE);
#endif
    memset(memory, 0, bytes);
    return memory;
}

/* Reads lines drawn at random, some often before others once.  Every line holds zero, but the processor does
 * not know that: the next draw has to wait for the read, so that no two reads can overlap. */
static uint64_t draw(const char *memory, size_t lines, uint64_t state, long reads)
{
    for (long i = 0; i < reads; i++) {
        size_t line = (size_t)(((state >> 32) * lines) >> 32); /* the upper bits, scaled to 0 .. lines - 1 */
        state = state * 6364136223846793005u + 1442695040888963407u + *(const uint64_t *)(memory + line * plan.line);
    }
    return state;
}

/* What the partner does: one load per line, in order, start over at the end of the set; it only has to displace. */
static void touch(const char *memory, size_t set, size_t bytes)
{
    for (size_t i = 0, at = 0; i < bytes; i += plan.line) {
        __asm__ volatile("" : : "r"(memory[at]) : "memory");
        at += plan.line;
        if (at >= set)
            at = 0;
    }
}

/* ---- handing the CPU over --------------------------------------------------------------------------------- */

static void put(int fd, int32_t message)
{
    if (write(fd, &message, sizeof message) != sizeof message)
        lab_fail("write");
}

static int32_t get(int fd)
{
    int32_t message;
    if (read(fd, &message, sizeof message) != sizeof message)
        _exit(0); /* the other side has gone */
    return message;
}

static char *victims_set;

/* Waits for a turn, touches as much as the message says, gives the turn back. */
static void *partner(void *unused)
{
    size_t most = 0;
    for (int i = 0; i < plan.partners; i++)
        most = plan.partner[i] > most ? plan.partner[i] : most;
    /* Private: memory of its own.  Shared: as many touches, but of the victim's set. */
    char *memory = plan.shared_set ? victims_set : most ? map(most) : NULL;
    size_t set = plan.shared_set ? plan.working_set : most;
    shared->partner_tid = lab_tid();
    for (;;) {
        int32_t which = get(shared->to_partner[0]);
        if (which < 0)
            return unused;
        touch(memory, set, plan.partner[which]);
        put(shared->to_victim[1], which);
    }
}

static void switch_there_and_back(int which)
{
    put(shared->to_partner[1], which);
    get(shared->to_victim[0]);
}

static void same_calls_alone(void)
{
    for (int i = 0; i < 2; i++) { /* there and back: two writes, two reads */
        put(shared->to_self[1], 0);
        get(shared->to_self[0]);
    }
}

/* ---- measuring ------------------------------------------------------------------------------------------- */

static struct { int64_t away_ns, pass_ns; } *seen;
static int64_t *block_ns; /* passes x blocks */
static struct lab_events events;
static uint64_t state = 0x9e3779b97f4a7c15u;

/* What is timed after a resume.  Returns where the walk stands. */
static void **one_pass(long pass, void **at, size_t lines)
{
    if (!plan.blocks)
        return walk_ring(at, (size_t)(plan.burst * plan.stint));
    int64_t before = lab_now_ns();
    for (long i = 0; i < plan.blocks; i++) {
        state = draw(victims_set, lines, state, plan.block);
        int64_t now = lab_now_ns();
        block_ns[pass * plan.blocks + i] = now - before;
        before = now;
    }
    return at;
}

/* One block of passes under one condition; which < 0 is "alone". */
static void measure(long trial, int which, void **first, size_t lines)
{
    /* Not recorded: the block before may have left the set cold. */
    void **at = first;
    if (plan.blocks)
        state = draw(victims_set, lines, state, plan.block * plan.blocks);
    else
        at = walk_ring(first, lines);
    struct lab_tally before = lab_tally_now();
    for (long i = 0; i < plan.passes; i++) {
        int64_t leave = lab_now_ns();
        for (long hand_over = 0; hand_over < plan.burst; hand_over++)
            if (which < 0)
                same_calls_alone();
            else
                switch_there_and_back(which);
        lab_events_on(&events); /* before the clock is read: its system call belongs to the time away */
        int64_t resume = lab_now_ns();
        at = one_pass(i, at, lines);
        seen[i].pass_ns = lab_now_ns() - resume;
        lab_events_off(&events);
        seen[i].away_ns = resume - leave;
    }
    struct lab_tally counted = lab_tally_since(before);
    printf("block trial=%ld partner=%ld passes=%ld cpu_ns=%ld voluntary=%ld involuntary=%ld\n", trial,
           which < 0 ? -1L : (long)plan.partner[which], plan.passes, (long)counted.cpu_ns, (long)counted.voluntary,
           (long)counted.involuntary);
    for (long i = 0; i < plan.passes; i++) {
        printf("pass ns=%ld away=%ld", (long)seen[i].pass_ns, (long)seen[i].away_ns);
        for (long block = 0; block < plan.blocks; block++)
            printf(block ? ",%ld" : " blocks=%ld", (long)block_ns[i * plan.blocks + block]);
        putchar('\n');
    }
    lab_events_report(&events);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"working-set", required_argument, 0, 'w'}, {"partner", required_argument, 0, 'v'},
        {"line", required_argument, 0, 'l'},        {"access", required_argument, 0, 'a'},
        {"between", required_argument, 0, 'b'},     {"passes", required_argument, 0, 'p'},
        {"trials", required_argument, 0, 't'},      {"seed", required_argument, 0, 's'},
        {"stint", required_argument, 0, 'n'},       {"burst", required_argument, 0, 'u'},
        {"blocks", required_argument, 0, 'B'},      {"block", required_argument, 0, 'r'},
        {"sharing", required_argument, 0, 'm'},     {"deadline", required_argument, 0, 'd'},
        {"event", required_argument, 0, 'e'},       {0, 0, 0, 0},
    };
    const long huge = 1L << 40;
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'w': plan.working_set = (size_t)lab_number("--working-set", optarg, 1, huge); break;
        case 'v':
            if (plan.partners == MOST_PARTNERS)
                lab_fail("--partner can be given %d times", MOST_PARTNERS);
            plan.partner[plan.partners++] = (size_t)lab_number("--partner", optarg, 0, huge);
            break;
        case 'l': plan.line = (size_t)lab_number("--line", optarg, sizeof(void *), 4096); break;
        case 'a':
            plan.random_order = !strcmp(optarg, "random");
            if (!plan.random_order && strcmp(optarg, "sequential"))
                lab_fail("--access takes random or sequential, not '%s'", optarg);
            break;
        case 'b':
            plan.processes = !strcmp(optarg, "processes");
            if (!plan.processes && strcmp(optarg, "threads"))
                lab_fail("--between takes threads or processes, not '%s'", optarg);
            break;
        case 'm':
            plan.shared_set = !strcmp(optarg, "shared");
            if (!plan.shared_set && strcmp(optarg, "private"))
                lab_fail("--sharing takes private or shared, not '%s'", optarg);
            break;
        case 'n': plan.stint = lab_number("--stint", optarg, 1, huge); break;
        case 'u': plan.burst = lab_number("--burst", optarg, 1, 100000); break;
        case 'B': plan.blocks = lab_number("--blocks", optarg, 1, 100000); break;
        case 'r': plan.block = lab_number("--block", optarg, 1, 10000000); break;
        case 'p': plan.passes = lab_number("--passes", optarg, 1, 10000000); break;
        case 't': plan.trials = lab_number("--trials", optarg, 1, 100000); break;
        case 's': plan.seed = lab_number("--seed", optarg, 0, INT32_MAX); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        case 'e': lab_events_add(&events, optarg); break;
        default: return 2;
        }
    }
    if (plan.working_set < plan.line)
        lab_fail("--working-set must be at least one line of %zu bytes", plan.line);
    lab_begin(deadline_s);

    shared = lab_shared(sizeof *shared);
    if (pipe(shared->to_partner) < 0 || pipe(shared->to_victim) < 0 || pipe(shared->to_self) < 0)
        lab_fail("pipe");
    size_t lines = plan.working_set / plan.line;
    if (!plan.stint)
        plan.stint = (long)lines;
    victims_set = map(plan.working_set); /* before the fork, so that a shared set is shared */
    if (plan.processes) {
        if (lab_fork() == 0) {
            partner(NULL);
            _exit(0);
        }
    } else {
        lab_thread(partner, NULL);
    }
    uint64_t seed = RING_SEED ^ (uint64_t)plan.seed;
    void **first = plan.blocks ? NULL : link_ring(victims_set, lines, plan.line, plan.random_order, &seed);
    seen = calloc((size_t)plan.passes, sizeof *seen);
    if (!seen)
        lab_fail("no memory for %ld passes", plan.passes);
    memset(seen, 0, (size_t)plan.passes * sizeof *seen);
    if (plan.blocks) {
        size_t bytes = (size_t)(plan.passes * plan.blocks) * sizeof *block_ns;
        block_ns = malloc(bytes);
        if (!block_ns)
            lab_fail("no memory for %ld blocks", plan.passes * plan.blocks);
        memset(block_ns, 0, bytes); /* no page fault later */
    }
    lab_events_open(&events);
    while (!*(volatile pid_t *)&shared->partner_tid)
        sched_yield();
    lab_barrier((pid_t[]){lab_tid(), shared->partner_tid}, 2);

    /* New memory can be slow for many walks: without these, the first condition of all would pay for that. */
    int64_t began = lab_now_ns();
    for (int i = 0; !plan.blocks && i < WARM_ROUNDS && lab_now_ns() - began < WARM_NS; i++)
        walk_ring(first, lines);
    /* The order turns round from trial to trial (ABC, CBA, ABC ...), so that slow drift cancels. */
    for (long trial = 0; trial < plan.trials; trial++)
        for (int i = 0; i <= plan.partners; i++)
            measure(trial, trial % 2 ? plan.partners - 1 - i : i - 1, first, lines);
    put(shared->to_partner[1], -1);
    return lab_done();
}
