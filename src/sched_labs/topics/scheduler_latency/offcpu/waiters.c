/* waiters.c - five threads that are off the CPU for different reasons.
 *
 * Two never sleep and take turns on a CPU: off it, they are runnable.  One sleeps for a while again and again, one
 * waits for a byte in a pipe that the sleeper writes after each sleep: both sleep so that a signal wakes them.  One
 * starts a process with vfork() and may not go on before that process has ended: no signal but a deadly one wakes
 * it, which is what most waits for a disk are like.
 *
 *     ready tid=HOG tid=RIVAL tid=SLEEPER tid=READER tid=PARENT
 *     thread role=hog cpu_ns=... voluntary=... involuntary=...     one for each, in this order
 *
 * It lasts --duration-ms.
 */
#include "lab.h"

#include <getopt.h>
#include <stdatomic.h>
#include <stdbool.h>

static struct {
    long duration_ms, sleep_us;
} plan = {1000, 5000};

static pthread_barrier_t gate;
static int64_t end_ns;
static int ends[2]; /* of the pipe */

static void pause_us(long us)
{
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    nanosleep(&time, NULL);
}

static void compute(void)
{
    while (lab_now_ns() < end_ns)
        ;
}

static void sleep_and_write(void)
{
    while (lab_now_ns() < end_ns) {
        pause_us(plan.sleep_us);
        if (write(ends[1], "x", 1) != 1)
            lab_fail("cannot write to a pipe");
    }
    close(ends[1]);
}

static void read_bytes(void)
{
    char byte;
    while (read(ends[0], &byte, 1) == 1)
        ;
}

static void wait_for_children(void)
{
    while (lab_now_ns() < end_ns) {
        pid_t child = vfork();
        if (child < 0)
            lab_fail("cannot vfork");
        if (child == 0) { /* it borrows our memory: it must not return, or change anything */
            pause_us(plan.sleep_us);
            _exit(0);
        }
        waitpid(child, NULL, 0);
    }
}

static struct role {
    const char *name;
    void (*be)(void);
    _Atomic pid_t tid;
    struct lab_tally tally;
} roles[] = {
    {"hog", compute, 0, {0, 0, 0}},
    {"rival", compute, 0, {0, 0, 0}},
    {"sleeper", sleep_and_write, 0, {0, 0, 0}},
    {"reader", read_bytes, 0, {0, 0, 0}},
    {"parent", wait_for_children, 0, {0, 0, 0}},
};
enum { ROLES = sizeof roles / sizeof *roles };

static void *play(void *argument)
{
    struct role *me = argument;
    prctl(PR_SET_NAME, me->name);
    me->tid = lab_tid();
    pthread_barrier_wait(&gate);
    struct lab_tally before = lab_tally_now();
    me->be();
    me->tally = lab_tally_since(before);
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"duration-ms", required_argument, 0, 'm'},
        {"sleep-us", required_argument, 0, 's'},
        {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'm': plan.duration_ms = lab_number("--duration-ms", optarg, 1, 3600000); break;
        case 's': plan.sleep_us = lab_number("--sleep-us", optarg, 100, 1000000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    if (pipe(ends))
        lab_fail("cannot make a pipe");
    pthread_barrier_init(&gate, NULL, ROLES + 1);
    pthread_t threads[ROLES];
    pid_t tids[ROLES];
    for (int i = 0; i < ROLES; i++) {
        threads[i] = lab_thread(play, &roles[i]);
        while (!roles[i].tid)
            sched_yield();
        tids[i] = roles[i].tid;
    }
    lab_barrier(tids, ROLES);
    end_ns = lab_now_ns() + plan.duration_ms * 1000000;
    pthread_barrier_wait(&gate);
    for (int i = 0; i < ROLES; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < ROLES; i++)
        printf("thread role=%s cpu_ns=%ld voluntary=%ld involuntary=%ld\n", roles[i].name, (long)roles[i].tally.cpu_ns,
               (long)roles[i].tally.voluntary, (long)roles[i].tally.involuntary);
    return lab_done();
}
