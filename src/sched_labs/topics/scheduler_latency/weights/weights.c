/* weights.c - two processes want one CPU all the time: how is it divided between them?
 *
 * Nothing tells them apart but where they stand and what they weigh:
 *
 *     --sessions 1    each begins a session of its own (setsid), as every terminal and every service does;
 *                     with autogroup, the kernel then makes a task group for each
 *     --nice N        the second one asks for a nice value: a weight among the threads of its task group
 *     --autogroup N   the second one asks for a nice value of its whole session: /proc/self/autogroup
 *     --cpu C         where both run, from before their sessions begin: what a group did elsewhere counts for a while
 *     --other-cpu D   the second process has another thread, which runs there
 *
 * Control groups are given from outside, while all of them stand at the barrier.
 *
 *     ready tid=FIRST tid=SECOND
 *     hog hog=0 cpu_ns=... granted=...
 *         cpu_ns    of that process's first thread, in --duration-ms of wall clock
 *         granted   0 where the kernel refused the nice value that was asked for
 *
 * A moment at the beginning is not counted.  It is a longer one where the second group is on two CPUs: the kernel
 * divides its weight by averages of who is busy where, and they have to settle.
 */
#include "lab.h"

#include <fcntl.h>
#include <getopt.h>
#include <stdbool.h>

enum { SETTLE_MS = 40, SETTLE_AVERAGES_MS = 200 };

static struct {
    long sessions, nice, autogroup, cpu, other_cpu, duration_ms;
} plan = {.duration_ms = 500, .other_cpu = -1};

static struct shared {
    pthread_barrier_t gate;
    volatile pid_t tids[2];
    int64_t start_ns, counted_ns, end_ns;
    struct {
        int64_t cpu_ns;
        int granted;
    } hog[2];
} *all;

/* A session's nice value is written to a file, and may be changed once in 100 ms only. */
static bool weigh_session(long nice)
{
    char text[16];
    int length = snprintf(text, sizeof text, "%ld", nice);
    for (int attempt = 0; attempt < 20; attempt++) {
        int file = open("/proc/self/autogroup", O_WRONLY);
        if (file < 0)
            return false; /* this kernel has no autogroup */
        ssize_t written = write(file, text, (size_t)length);
        int error = errno;
        close(file);
        if (written == length)
            return true;
        if (error != EAGAIN)
            return false;
        usleep(50000);
    }
    return false;
}

static void pin(long cpu)
{
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET((size_t)cpu, &only);
    if (sched_setaffinity(0, sizeof only, &only))
        lab_fail("cannot run on CPU %ld", cpu);
}

static void burn_until(int64_t end_ns)
{
    while (lab_now_ns() < end_ns)
        ;
}

static void *burn_elsewhere(void *unused)
{
    pin(plan.other_cpu);
    pthread_barrier_wait(&all->gate);
    lab_sleep_until(all->start_ns);
    burn_until(all->end_ns);
    pthread_barrier_wait(&all->gate);
    return unused;
}

static void be_hog(int number)
{
    pin(plan.cpu);
    if (plan.sessions && setsid() < 0)
        lab_fail("setsid");
    /* The first one has nice 0, whatever whoever started us has. */
    bool granted = !setpriority(PRIO_PROCESS, 0, number == 1 ? (int)plan.nice : 0);
    if (number == 1 && plan.autogroup)
        granted = granted && weigh_session(plan.autogroup);
    all->hog[number].granted = granted;
    if (number == 1 && plan.other_cpu >= 0)
        lab_thread(burn_elsewhere, NULL);
    all->tids[number] = lab_tid();
    pthread_barrier_wait(&all->gate);
    lab_sleep_until(all->start_ns);
    burn_until(all->counted_ns);
    struct lab_tally before = lab_tally_now();
    burn_until(all->end_ns);
    all->hog[number].cpu_ns = lab_tally_since(before).cpu_ns;
    pthread_barrier_wait(&all->gate);
    _exit(0);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"sessions", required_argument, 0, 's'},  {"nice", required_argument, 0, 'n'},
        {"autogroup", required_argument, 0, 'a'}, {"cpu", required_argument, 0, 'c'},
        {"other-cpu", required_argument, 0, 'o'},
        {"duration-ms", required_argument, 0, 't'}, {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 's': plan.sessions = lab_number("--sessions", optarg, 0, 1); break;
        case 'n': plan.nice = lab_number("--nice", optarg, 0, 19); break;
        case 'a': plan.autogroup = lab_number("--autogroup", optarg, 0, 19); break;
        case 'c': plan.cpu = lab_number("--cpu", optarg, 0, CPU_SETSIZE - 1); break;
        case 'o': plan.other_cpu = lab_number("--other-cpu", optarg, 0, CPU_SETSIZE - 1); break;
        case 't': plan.duration_ms = lab_number("--duration-ms", optarg, 10, 60000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    all = lab_shared(sizeof *all);
    unsigned threads = plan.other_cpu < 0 ? 2 : 3;
    pthread_barrierattr_t between;
    pthread_barrierattr_init(&between);
    pthread_barrierattr_setpshared(&between, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&all->gate, &between, threads + 1);
    for (int i = 0; i < 2; i++)
        if (lab_fork() == 0)
            be_hog(i);
    pid_t tids[2];
    for (int i = 0; i < 2; i++) {
        while (!all->tids[i])
            usleep(100);
        tids[i] = all->tids[i];
    }
    lab_barrier(tids, 2);
    all->start_ns = lab_now_ns() + 10000000;
    all->counted_ns = all->start_ns + (plan.other_cpu < 0 ? SETTLE_MS : SETTLE_AVERAGES_MS) * 1000000LL;
    all->end_ns = all->counted_ns + plan.duration_ms * 1000000;
    pthread_barrier_wait(&all->gate);
    pthread_barrier_wait(&all->gate);
    for (int i = 0; i < 2; i++)
        printf("hog hog=%d cpu_ns=%ld granted=%d\n", i, (long)all->hog[i].cpu_ns, all->hog[i].granted);
    return lab_done();
}
