/* two_hogs.c - two threads that compute for the same time; whoever started them says how nice each is.
 *
 *     thread number=0 cpu_ns=...      the CPU time that the first one got
 *     thread number=1 cpu_ns=...
 */
#include "lab.h"

#include <getopt.h>

static long duration_ms = 100;
static int64_t end_ns; /* of both: a thread that begins later does not compute alone at the end */
static pthread_barrier_t gate;
static struct {
    _Atomic pid_t tid;
    int64_t cpu_ns;
} threads[2];

static void *compute(void *argument)
{
    long me = (intptr_t)argument;
    threads[me].tid = lab_tid();
    pthread_barrier_wait(&gate);
    while (lab_now_ns() < end_ns)
        ;
    threads[me].cpu_ns = lab_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"duration-ms", required_argument, 0, 'm'}, {"deadline", required_argument, 0, 'd'}, {0, 0, 0, 0}};
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'm': duration_ms = lab_number("--duration-ms", optarg, 1, 60000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    pthread_barrier_init(&gate, NULL, 3);
    pthread_t started[2];
    for (long i = 0; i < 2; i++) {
        started[i] = lab_thread(compute, (void *)(intptr_t)i);
        while (!threads[i].tid)
            sched_yield();
    }
    lab_barrier((pid_t[]){threads[0].tid, threads[1].tid}, 2);
    end_ns = lab_now_ns() + duration_ms * 1000000;
    pthread_barrier_wait(&gate);
    for (long i = 0; i < 2; i++) {
        pthread_join(started[i], NULL);
        printf("thread number=%ld cpu_ns=%ld\n", i, (long)threads[i].cpu_ns);
    }
    return lab_done();
}
