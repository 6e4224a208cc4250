/* A working set that is walked: cache lines in random order, each of which holds the address of the next.
 *
 * A processor cannot fetch a line whose address it does not know yet: the loads of such a walk come one after the
 * other, and no prefetcher runs ahead of them. */
#ifndef RING_H
#define RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "lab.h"

#define RING_SEED 0x9e3779b97f4a7c15u /* any but 0: a workload's own seed is mixed into it */

/* A small random generator (xorshift), so that a seed gives the same walk on every machine. */
static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Memory of the smallest pages on every machine: with huge ones a walk would miss the TLB less. */
static inline char *small_pages(size_t bytes)
{
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        lab_fail("cannot map %zu bytes", bytes);
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    return memory;
}

/* Links lines of `line` bytes into one ring, in random order or as they lie; returns where it begins. */
static inline void **link_ring(char *memory, size_t lines, size_t line, bool random_order, uint64_t *state)
{
    size_t *order = malloc(lines * sizeof *order);
    if (!order)
        lab_fail("no memory for %zu lines", lines);
    for (size_t i = 0; i < lines; i++)
        order[i] = i;
    for (size_t i = lines - 1; random_order && i > 0; i--) { /* Fisher-Yates: every order equally likely */
        size_t j = next_random(state) % (i + 1), keep = order[i];
        order[i] = order[j];
        order[j] = keep;
    }
    for (size_t i = 0; i < lines; i++)
        *(void **)(memory + order[i] * line) = memory + order[(i + 1) % lines] * line;
    void **first = (void **)(memory + order[0] * line);
    free(order);
    return first;
}

/* Walks on from a line; returns where it ended.  The empty asm "uses" that address, so that the compiler must keep
 * every load. */
static inline void **walk_ring(void **line, size_t lines)
{
    for (size_t i = 0; i < lines; i++)
        line = *line;
    __asm__ volatile("" : : "r"(line) : "memory");
    return line;
}
#endif
