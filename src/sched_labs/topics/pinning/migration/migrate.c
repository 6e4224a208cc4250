/* migrate.c - what does it cost a thread to be moved to another CPU?
 *
 * The victim walks its working set over and over, one line after the other in random order.  After every --every-us
 * it stops, makes one system call, and walks the set once more, timed.  The system call is sched_setaffinity(), and
 * two kinds of it take turns:
 *
 *     stay    the mask names the CPU on which the victim is already: all of the call, and no move
 *     move    the mask names the other CPU: when the call returns, the victim runs there
 *
 * It moves there and back and stays on both CPUs, so that a CPU that is slower in itself shows in both alike.
 * With equal CPUs nothing ever moves: that run says how large a difference is when there is none.
 *
 *     block trial=0 steps=... moved=... voluntary=... involuntary=... kernel=...
 *         moved    calls after which the victim was on another CPU than before
 *         kernel   moves that the kernel counted in the same time (nr_migrations in /proc/thread-self/sched); left
 *                  out where the kernel does not tell
 *     step cpu=... move=... call=... ns=... wait=...   the CPU of the walk, ns of the call, ns of the walk
 *         wait     ns of the two in which the victim could have run and had no CPU (/proc/thread-self/schedstat): it
 *                  arrives, and the CPU is not free or has to be woken; left out where the kernel does not tell
 *
 * By default the walk writes a word to every line that it reads.  A line that was written is only in the caches of
 * the CPU that wrote it, and has to be fetched from there after a move.  With --touch reads it only reads, and then
 * the CPU to which the victim comes back may still hold what it held when the victim left.
 */
#include "lab.h"
#include "ring.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>

static struct {
    size_t working_set, line;
    long every_us, steps, trials, seed;
    int cpu[2];
    bool writes;
} plan = {.working_set = 64 << 10, .line = 64, .every_us = 1000, .steps = 8, .trials = 3, .seed = 1, .writes = true};

/* ---- the working set ---------------------------------------------------------------------------------------- */

/* Each line holds the address of the next one, and a word that is counted up; returns where the ring begins. */
static void **make_ring(size_t lines)
{
    uint64_t seed = RING_SEED ^ (uint64_t)plan.seed;
    return link_ring(small_pages(lines * plan.line), lines, plan.line, true, &seed);
}

/* One walk; the empty asm keeps every load. */
static void walk(void **line, size_t lines)
{
    if (plan.writes)
        for (size_t i = 0; i < lines; i++) {
            ((volatile uintptr_t *)line)[1]++;
            line = *line;
        }
    else
        for (size_t i = 0; i < lines; i++)
            line = *line;
    __asm__ volatile("" : : "r"(line) : "memory");
}

/* ---- moving ------------------------------------------------------------------------------------------------- */

static void go_to(int cpu)
{
    cpu_set_t mask;
    CPU_ZERO(&mask);
    CPU_SET(cpu, &mask);
    if (sched_setaffinity(0, sizeof mask, &mask) < 0)
        lab_fail("cannot go to CPU %d", cpu);
}

/* How often the kernel moved this thread so far; -1 where it does not tell. */
static long kernel_moves(void)
{
    FILE *file = fopen("/proc/thread-self/sched", "re");
    long count = -1;
    char text[256];
    while (file && fgets(text, sizeof text, file))
        if (sscanf(text, "se.nr_migrations : %ld", &count) == 1)
            break;
    if (file)
        fclose(file);
    return count;
}

/* How long this thread has waited for a CPU so far, in ns; -1 where the kernel does not tell. */
static long wait_ns(void)
{
    static int file = -2;
    if (file == -2)
        file = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    char text[128];
    long ns;
    ssize_t size = pread(file, text, sizeof text - 1, 0);
    text[size > 0 ? size : 0] = 0;
    return sscanf(text, "%*d %ld", &ns) == 1 ? ns : -1;
}

static struct step {
    int64_t call_ns, walk_ns;
    long wait_ns;
    int cpu, moving;
} *steps;

static void measure(long trial, void **ring, size_t lines)
{
    int at = 0;
    go_to(plan.cpu[at]);
    walk(ring, lines);
    long before = kernel_moves(), moved = 0;
    struct lab_tally tally = lab_tally_now();
    for (long i = 0; i < plan.steps; i++) {
        int64_t until = lab_now_ns() + plan.every_us * 1000;
        int walks = 0;
        do /* at least twice: the set is where it can be, as near as it fits */
            walk(ring, lines);
        while (++walks < 2 || lab_now_ns() < until);

        int was_on = sched_getcpu(), moving = i % 2;
        if (moving)
            at = !at;
        long waited = wait_ns();
        int64_t call = lab_now_ns();
        go_to(plan.cpu[at]);
        int64_t resume = lab_now_ns();
        walk(ring, lines);
        int64_t end = lab_now_ns();
        waited = waited < 0 ? -1 : wait_ns() - waited;
        steps[i] = (struct step){resume - call, end - resume, waited, sched_getcpu(), moving};
        moved += steps[i].cpu != was_on;
    }
    tally = lab_tally_since(tally);
    long after = kernel_moves();
    printf("block trial=%ld steps=%ld moved=%ld voluntary=%ld involuntary=%ld", trial, plan.steps, moved,
           (long)tally.voluntary, (long)tally.involuntary);
    if (before >= 0 && after >= 0)
        printf(" kernel=%ld", after - before);
    putchar('\n');
    for (long i = 0; i < plan.steps; i++) {
        printf("step cpu=%d move=%d call=%ld ns=%ld", steps[i].cpu, steps[i].moving, (long)steps[i].call_ns,
               (long)steps[i].walk_ns);
        if (steps[i].wait_ns >= 0)
            printf(" wait=%ld", steps[i].wait_ns);
        putchar('\n');
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"working-set", required_argument, 0, 'w'}, {"line", required_argument, 0, 'l'},
        {"every-us", required_argument, 0, 'e'},    {"steps", required_argument, 0, 'n'},
        {"trials", required_argument, 0, 't'},      {"seed", required_argument, 0, 's'},
        {"cpu", required_argument, 0, 'c'},         {"touch", required_argument, 0, 'r'},
        {"deadline", required_argument, 0, 'd'},    {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    int cpus = 0;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'w': plan.working_set = (size_t)lab_number("--working-set", optarg, 1, 1L << 40); break;
        case 'l': plan.line = (size_t)lab_number("--line", optarg, 2 * sizeof(void *), 4096); break;
        case 'e': plan.every_us = lab_number("--every-us", optarg, 0, 10000000); break;
        case 'n': plan.steps = lab_number("--steps", optarg, 2, 1000000); break;
        case 't': plan.trials = lab_number("--trials", optarg, 1, 100000); break;
        case 's': plan.seed = lab_number("--seed", optarg, 0, INT32_MAX); break;
        case 'c':
            if (cpus == 2)
                lab_fail("--cpu can be given twice");
            plan.cpu[cpus++] = (int)lab_number("--cpu", optarg, 0, CPU_SETSIZE - 1);
            break;
        case 'r':
            plan.writes = !strcmp(optarg, "writes");
            if (!plan.writes && strcmp(optarg, "reads"))
                lab_fail("--touch takes reads or writes, not '%s'", optarg);
            break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    if (plan.working_set < plan.line)
        lab_fail("--working-set must be at least one line of %zu bytes", plan.line);
    if (!cpus)
        plan.cpu[0] = sched_getcpu();
    if (cpus < 2)
        plan.cpu[1] = plan.cpu[0];
    lab_begin(deadline_s);

    steps = calloc((size_t)plan.steps, sizeof *steps);
    if (!steps)
        lab_fail("no memory for %ld steps", plan.steps);
    memset(steps, 1, (size_t)plan.steps * sizeof *steps); /* no page fault later */
    lab_barrier((pid_t[]){lab_tid()}, 1);
    go_to(plan.cpu[0]);
    size_t lines = plan.working_set / plan.line;
    void **ring = make_ring(lines); /* here, so that the memory is near to the first CPU */
    for (long trial = 0; trial < plan.trials; trial++)
        measure(trial, ring, lines);
    return lab_done();
}
