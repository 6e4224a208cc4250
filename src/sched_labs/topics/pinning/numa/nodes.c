/* nodes.c - how much longer does a load take when the memory belongs to another node?
 *
 * A machine with several memory nodes has a part of its memory near to each group of CPUs.  The victim stays on one
 * CPU and has a ring of cache lines on each node that is named, bound to it with mbind().  It walks the rings in
 * turn, --loads loads at a time, in random order, each load giving the address of the next.
 *
 *     ready tid=VICTIM
 *     ring node=0 pages=... there=...      how many of the ring's pages the kernel says are on that node; there is
 *                                          left out where it does not tell (move_pages)
 *     block trial=0 node=0 loads=... ns=...
 *
 * Without --node there is one ring, wherever the kernel puts it, and its node is -1.
 */
#include "lab.h"
#include "ring.h"

#include <getopt.h>
#include <linux/mempolicy.h>

enum { MOST_NODES = 64 };

static struct {
    size_t working_set, line;
    long loads, trials, seed;
    int node[MOST_NODES], nodes;
} plan = {.working_set = 1 << 20, .line = 64, .loads = 10000, .trials = 3, .seed = 1};

static struct ring {
    void **at;
    long pages, there;
} rings[MOST_NODES];

static void bind_to(char *memory, size_t bytes, int node)
{
    unsigned long mask[MOST_NODES / (8 * sizeof(unsigned long)) + 1] = {0};
    mask[(size_t)node / (8 * sizeof *mask)] |= 1UL << ((size_t)node % (8 * sizeof *mask));
    if (syscall(SYS_mbind, memory, bytes, MPOL_BIND, mask, MOST_NODES + 1, MPOL_MF_STRICT) < 0)
        lab_fail("cannot bind memory to node %d", node);
}

/* How many of the pages are on the node; -1 where the kernel does not tell. */
static long pages_on(char *memory, long pages, int node)
{
    long there = 0;
    for (long i = 0; i < pages; i++) {
        void *page = memory + i * sysconf(_SC_PAGESIZE);
        int found = -1;
        if (syscall(SYS_move_pages, 0, 1UL, &page, NULL, &found, 0) < 0)
            return -1;
        there += found == node;
    }
    return there;
}

static struct ring make_ring(int node)
{
    size_t lines = plan.working_set / plan.line, page = (size_t)sysconf(_SC_PAGESIZE);
    size_t bytes = (lines * plan.line + page - 1) / page * page;
    char *memory = small_pages(bytes);
    if (node >= 0)
        bind_to(memory, bytes, node); /* before the first line is written: that is when a page gets its place */
    uint64_t seed = RING_SEED ^ (uint64_t)plan.seed;
    struct ring ring = {link_ring(memory, lines, plan.line, true, &seed), (long)(bytes / page), -1};
    if (node >= 0)
        ring.there = pages_on(memory, ring.pages, node);
    return ring;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"working-set", required_argument, 0, 'w'}, {"line", required_argument, 0, 'l'},
        {"loads", required_argument, 0, 'n'},       {"trials", required_argument, 0, 't'},
        {"seed", required_argument, 0, 's'},        {"node", required_argument, 0, 'o'},
        {"deadline", required_argument, 0, 'd'},    {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'w': plan.working_set = (size_t)lab_number("--working-set", optarg, 4096, 1L << 40); break;
        case 'l': plan.line = (size_t)lab_number("--line", optarg, sizeof(void *), 4096); break;
        case 'n': plan.loads = lab_number("--loads", optarg, 1, 1000000000); break;
        case 't': plan.trials = lab_number("--trials", optarg, 1, 100000); break;
        case 's': plan.seed = lab_number("--seed", optarg, 0, INT32_MAX); break;
        case 'o':
            if (plan.nodes == MOST_NODES)
                lab_fail("--node can be given %d times", MOST_NODES);
            plan.node[plan.nodes++] = (int)lab_number("--node", optarg, 0, MOST_NODES - 1);
            break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    if (!plan.nodes)
        plan.node[plan.nodes++] = -1;
    lab_begin(deadline_s);
    lab_barrier((pid_t[]){lab_tid()}, 1);

    for (int i = 0; i < plan.nodes; i++) { /* here, because now it stands where it was placed */
        rings[i] = make_ring(plan.node[i]);
        printf("ring node=%d pages=%ld", plan.node[i], rings[i].pages);
        if (rings[i].there >= 0)
            printf(" there=%ld", rings[i].there);
        putchar('\n');
    }
    for (long trial = 0; trial < plan.trials; trial++)
        for (int turn = 0; turn < plan.nodes; turn++) {
            int i = trial % 2 ? plan.nodes - 1 - turn : turn; /* so that slow drift cancels */
            /* Not timed, before a short ring: the other rings may have pushed it out of the caches. */
            long lines = (long)(plan.working_set / plan.line);
            if (lines <= plan.loads)
                rings[i].at = walk_ring(rings[i].at, lines);
            int64_t start = lab_now_ns();
            rings[i].at = walk_ring(rings[i].at, (size_t)plan.loads);
            printf("block trial=%ld node=%d loads=%ld ns=%ld\n", trial, plan.node[i], plan.loads,
                   (long)(lab_now_ns() - start));
        }
    return lab_done();
}
