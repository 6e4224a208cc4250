/* mystery.c - one program, five ways of life: can you tell from its switches which one it leads?
 *
 *     sleeper   works for --work-us every --period-us, on a timer
 *     chatter   two threads send each other a byte through pipes, 20 times, then the leader sleeps --period-us
 *     hog       works and never sleeps
 *     mixed     works for --work-us, then sleeps for --period-us, whenever that ends
 *     yielder   two threads that work for --work-us and offer their CPU to others (sched_yield), all the time
 *     pool      four threads live like the sleeper; the leader, whom some tools look at alone, waits for them
 *
 *     ready tid=LEADER tid=THREAD ...
 *     life kind=pool cpu_ns=... voluntary=... involuntary=...      of all of its threads
 *
 * It lasts --duration-ms.
 */
#include "lab.h"
#include "work.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdatomic.h>

enum { POOL = 4, EXCHANGES = 20 };

static struct {
    const char *kind;
    long work_us, period_us, duration_ms;
} plan = {"sleeper", 50, 5000, 500};

static int pipes[2][2];
static int64_t end_ns;
static _Atomic int64_t voluntary, involuntary, cpu_ns;
static _Atomic pid_t tids[POOL + 1];
static pthread_barrier_t gate;

static long work_steps; /* of one plan.work_us */

static void by_timer(int64_t phase_us)
{
    for (int64_t next = lab_now_ns() + phase_us * 1000; next < end_ns; next += plan.period_us * 1000) {
        lab_sleep_until(next);
        work(work_steps);
    }
}

static void pass(int to)
{
    if (write(pipes[to][1], "x", 1) != 1)
        lab_fail("write");
}

static int receive(int me)
{
    char byte;
    return read(pipes[me][0], &byte, 1) == 1;
}

static void live(int number)
{
    if (!strcmp(plan.kind, "pool")) {
        if (number > 0)
            by_timer(number * plan.period_us / POOL);
    } else if (!strcmp(plan.kind, "sleeper")) {
        by_timer(0);
    } else if (!strcmp(plan.kind, "chatter") && number == 0) {
        while (lab_now_ns() < end_ns) {
            for (int i = 0; i < EXCHANGES; i++) {
                pass(1);
                receive(0);
            }
            lab_sleep_until(lab_now_ns() + plan.period_us * 1000);
        }
        close(pipes[1][1]); /* the partner reads the end of the pipe */
    } else if (!strcmp(plan.kind, "chatter")) {
        while (receive(1))
            pass(0);
    } else {
        while (lab_now_ns() < end_ns) {
            work(work_steps);
            if (!strcmp(plan.kind, "yielder"))
                sched_yield();
            else if (!strcmp(plan.kind, "mixed"))
                lab_sleep_until(lab_now_ns() + plan.period_us * 1000);
        }
    }
}

static void *thread(void *argument)
{
    int number = (int)(intptr_t)argument;
    tids[number] = lab_tid();
    if (number > 0)
        pthread_barrier_wait(&gate);
    struct lab_tally before = lab_tally_now();
    live(number);
    struct lab_tally did = lab_tally_since(before);
    voluntary += did.voluntary;
    involuntary += did.involuntary;
    cpu_ns += did.cpu_ns;
    return NULL;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"kind", required_argument, 0, 'k'},        {"work-us", required_argument, 0, 'w'},
        {"period-us", required_argument, 0, 'p'},   {"duration-ms", required_argument, 0, 'm'},
        {"deadline", required_argument, 0, 'd'},    {0, 0, 0, 0},
    };
    static const char *const kinds[] = {"sleeper", "chatter", "hog", "mixed", "yielder", "pool"};
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'k':
            plan.kind = NULL;
            for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
                if (!strcmp(optarg, kinds[i]))
                    plan.kind = kinds[i];
            if (!plan.kind)
                lab_fail("--kind takes sleeper, chatter, hog, mixed, yielder or pool, not '%s'", optarg);
            break;
        case 'w': plan.work_us = lab_number("--work-us", optarg, 1, 1000000); break;
        case 'p': plan.period_us = lab_number("--period-us", optarg, 1, 1000000); break;
        case 'm': plan.duration_ms = lab_number("--duration-ms", optarg, 1, 600000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    if (pipe(pipes[0]) || pipe(pipes[1]))
        lab_fail("pipe");
    int helpers = !strcmp(plan.kind, "pool") ? POOL : strcmp(plan.kind, "chatter") && strcmp(plan.kind, "yielder") ? 0 : 1;
    work_steps = (long)((double)plan.work_us * steps_per_us());
    pthread_barrier_init(&gate, NULL, (unsigned)helpers + 1);
    pthread_t threads[POOL + 1];
    tids[0] = lab_tid();
    for (int i = 1; i <= helpers; i++) {
        threads[i] = lab_thread(thread, (void *)(intptr_t)i);
        while (!tids[i])
            sched_yield();
    }
    pid_t named[POOL + 1];
    for (int i = 0; i <= helpers; i++)
        named[i] = tids[i];
    lab_barrier(named, helpers + 1);

    end_ns = lab_now_ns() + plan.duration_ms * 1000000;
    pthread_barrier_wait(&gate);
    thread((void *)0);
    for (int i = 1; i <= helpers; i++)
        pthread_join(threads[i], NULL);
    printf("life kind=%s cpu_ns=%" PRId64 " voluntary=%" PRId64 " involuntary=%" PRId64 "\n", plan.kind, cpu_ns,
           voluntary, involuntary);
    return lab_done();
}
