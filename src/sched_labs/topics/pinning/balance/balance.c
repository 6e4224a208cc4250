/* balance.c - hogs that are crowded onto one CPU and then let go: which of them runs where, and when?
 *
 * Whoever starts this program gives the hogs their CPU, and the releaser its own.  After --hold-ms the releaser lets
 * the hogs use the CPUs of --to (with --keep, all but the first so many), and sleeps until --watch-ms have passed.
 *
 *     ready tid=RELEASER tid=HOG ...
 *     stretch hog=0 cpu=1 from_ns=... to_ns=...   the hog computed there without a gap of GAP_NS or more
 *     hog number=0 cpu_ns=...                     the CPU time that it had
 *
 * Times count from the moment when the last hog was let go; what went on before is negative.  Nobody outside has to
 * watch: a hog reads the clock and the number of its CPU in every round, and neither is a system call.
 *
 * With --naps, each hog sleeps for a millisecond as soon as it sees that it has been let go: then it is woken, and
 * whoever is woken is given a CPU anew.
 */
#include "lab.h"

#include <getopt.h>
#include <stdatomic.h>
#include <stdbool.h>

enum { MOST_HOGS = 64, MOST_STRETCHES = 20000, GAP_NS = 200000, NAP_NS = 1000000 };

static struct {
    long hogs, keep, hold_ms, watch_ms, naps;
    cpu_set_t to;
} plan = {.hogs = 8, .hold_ms = 50, .watch_ms = 300};

static struct hog {
    _Atomic pid_t tid;
    clockid_t cpu_clock;
    int64_t cpu_ns;
    int stretches;
    struct stretch {
        int cpu;
        int64_t from_ns, to_ns;
    } of[MOST_STRETCHES];
} *hogs;

static pthread_barrier_t gate;
static atomic_bool released, over;

static void *be_hog(void *argument)
{
    struct hog *me = argument;
    pthread_getcpuclockid(pthread_self(), &me->cpu_clock);
    me->tid = lab_tid();
    pthread_barrier_wait(&gate);
    bool may_nap = plan.naps != 0;
    struct stretch *now = NULL;
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        int cpu = sched_getcpu();
        int64_t ns = lab_now_ns();
        if (!now || cpu != now->cpu || ns - now->to_ns >= GAP_NS) {
            if (me->stretches == MOST_STRETCHES)
                break;
            now = &me->of[me->stretches++];
            *now = (struct stretch){.cpu = cpu, .from_ns = ns};
        }
        now->to_ns = ns;
        if (may_nap && atomic_load_explicit(&released, memory_order_relaxed)) {
            may_nap = false;
            lab_sleep_until(ns + NAP_NS);
        }
    }
    return NULL;
}

/* "0,2,3" as a set of CPUs. */
static cpu_set_t cpus_named(const char *text)
{
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    for (char *end = (char *)text; *end; end += *end == ',') {
        const char *begin = end;
        long cpu = strtol(begin, &end, 10);
        if (end == begin || cpu < 0 || cpu >= CPU_SETSIZE || (*end && *end != ',')) {
            errno = 0;
            lab_fail("--to takes numbers of CPUs with commas between them, not '%s'", text);
        }
        CPU_SET(cpu, &cpus);
    }
    return cpus;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"hogs", required_argument, 0, 'h'},     {"keep", required_argument, 0, 'k'},
        {"hold-ms", required_argument, 0, 'o'},  {"watch-ms", required_argument, 0, 'w'},
        {"to", required_argument, 0, 't'},       {"naps", no_argument, 0, 'n'},
        {"deadline", required_argument, 0, 'd'}, {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    sched_getaffinity(0, sizeof plan.to, &plan.to);
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'h': plan.hogs = lab_number("--hogs", optarg, 1, MOST_HOGS); break;
        case 'k': plan.keep = lab_number("--keep", optarg, 0, MOST_HOGS); break;
        case 'o': plan.hold_ms = lab_number("--hold-ms", optarg, 0, 10000); break;
        case 'w': plan.watch_ms = lab_number("--watch-ms", optarg, 1, 60000); break;
        case 't': plan.to = cpus_named(optarg); break;
        case 'n': plan.naps = 1; break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    hogs = lab_shared((size_t)plan.hogs * sizeof *hogs);
    pthread_barrier_init(&gate, NULL, 1 + (unsigned)plan.hogs);
    pthread_t threads[MOST_HOGS];
    pid_t tids[1 + MOST_HOGS] = {lab_tid()};
    for (long i = 0; i < plan.hogs; i++) {
        threads[i] = lab_thread(be_hog, &hogs[i]);
        while (!hogs[i].tid)
            sched_yield();
        tids[1 + i] = hogs[i].tid;
    }
    lab_barrier(tids, 1 + (int)plan.hogs);
    pthread_barrier_wait(&gate);
    lab_sleep_until(lab_now_ns() + plan.hold_ms * 1000000);

    for (long i = plan.keep; i < plan.hogs; i++)
        if (sched_setaffinity(hogs[i].tid, sizeof plan.to, &plan.to))
            lab_fail("cannot let a hog use the CPUs of --to");
    int64_t let_go_ns = lab_now_ns();
    for (long i = 0; i < plan.hogs; i++)
        hogs[i].cpu_ns = lab_clock_ns(hogs[i].cpu_clock);
    atomic_store(&released, true);
    lab_sleep_until(let_go_ns + plan.watch_ms * 1000000);
    for (long i = 0; i < plan.hogs; i++)
        hogs[i].cpu_ns = lab_clock_ns(hogs[i].cpu_clock) - hogs[i].cpu_ns;
    atomic_store(&over, true);
    for (long i = 0; i < plan.hogs; i++)
        pthread_join(threads[i], NULL);

    for (long i = 0; i < plan.hogs; i++) {
        for (int s = 0; s < hogs[i].stretches; s++)
            printf("stretch hog=%ld cpu=%d from_ns=%ld to_ns=%ld\n", i, hogs[i].of[s].cpu,
                   (long)(hogs[i].of[s].from_ns - let_go_ns), (long)(hogs[i].of[s].to_ns - let_go_ns));
        printf("hog number=%ld cpu_ns=%ld\n", i, (long)hogs[i].cpu_ns);
    }
    return lab_done();
}
