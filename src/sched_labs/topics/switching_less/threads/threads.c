/* threads.c - what does a thread cost that does nothing, and what does memory cost that nobody touches?
 *
 *     hold     starts --threads threads with stacks of --stack bytes; all of them sleep for --hold-ms
 *              created threads=... error=...      error: why no more could be started (0: all were)
 *              held elapsed_ns=... cpu_ns=...     of all threads together, while they slept
 *     touch    asks malloc() for --bytes, then writes to them in eight steps
 *              step number=... touched_bytes=... vm_bytes=... rss_bytes=... minor_faults=... elapsed_ns=...
 *                                                 number 0: before malloc(), 1: after it, 2 to 9: after each step
 *     create   starts one thread and waits for its end, --threads times; and the same with a process
 *              batch trial=... what=thread count=... elapsed_ns=...
 */
#include "lab.h"

#include <getopt.h>
#include <inttypes.h>
#include <semaphore.h>

static struct {
    char mode;
    long threads, stack, bytes, hold_ms, trials;
} plan = {'h', 100, 8 << 20, 64 << 20, 200, 5};

static void *sleep_for_ever(void *semaphore)
{
    for (;;)
        sem_wait(semaphore);
    return NULL;
}

static void hold(void)
{
    static sem_t never;
    sem_init(&never, 0, 0);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, (size_t)plan.stack))
        lab_fail("a stack of %ld bytes", plan.stack);
    long started = 0;
    int error = 0;
    for (pthread_t thread; started < plan.threads && !error; started += !error)
        error = pthread_create(&thread, &attributes, sleep_for_ever, &never);
    printf("created threads=%ld error=%d\n", started, error);
    fflush(stdout);
    /* The last ones may still be on their way to sleep. */
    usleep(50000);
    int64_t start = lab_now_ns(), cpu = lab_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    usleep((useconds_t)plan.hold_ms * 1000);
    cpu = lab_clock_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("held elapsed_ns=%" PRId64 " cpu_ns=%" PRId64 "\n", lab_now_ns() - start, cpu);
}

static void report_memory(int number, long touched, int64_t elapsed)
{
    long pages = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    if (!file || fscanf(file, "%ld %ld", &pages, &resident) != 2)
        lab_fail("/proc/self/statm");
    fclose(file);
    long page = sysconf(_SC_PAGESIZE);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    printf("step number=%d touched_bytes=%ld vm_bytes=%ld rss_bytes=%ld minor_faults=%ld elapsed_ns=%" PRId64 "\n",
           number, touched, pages * page, resident * page, usage.ru_minflt, elapsed);
}

static void touch(void)
{
    report_memory(0, 0, 0);
    int64_t start = lab_now_ns();
    char *memory = malloc((size_t)plan.bytes);
    if (!memory)
        lab_fail("malloc of %ld bytes", plan.bytes);
    report_memory(1, 0, lab_now_ns() - start);
    for (int step = 0; step < 8; step++) {
        long from = plan.bytes / 8 * step, to = step == 7 ? plan.bytes : from + plan.bytes / 8;
        start = lab_now_ns();
        memset(memory + from, step + 1, (size_t)(to - from));
        __asm__ volatile("" ::"r"(memory) : "memory"); /* the compiler must not find that nobody reads it */
        report_memory(step + 2, to, lab_now_ns() - start);
    }
    free(memory);
}

static void *end_at_once(void *unused)
{
    return unused;
}

static void create(void)
{
    for (long trial = 0; trial < plan.trials; trial++)
        for (int processes = 0; processes < 2; processes++) {
            long count = processes ? plan.threads / 4 + 1 : plan.threads;
            int64_t start = lab_now_ns();
            for (long i = 0; i < count; i++) {
                pid_t child = 0;
                if (!processes) {
                    pthread_join(lab_thread(end_at_once, NULL), NULL);
                } else if ((child = fork()) == 0) {
                    _exit(0);
                } else if (child < 0 || waitpid(child, NULL, 0) != child) {
                    lab_fail("cannot start a process");
                }
            }
            printf("batch trial=%ld what=%s count=%ld elapsed_ns=%" PRId64 "\n", trial,
                   processes ? "process" : "thread", count, lab_now_ns() - start);
        }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"mode", required_argument, 0, 'm'},    {"threads", required_argument, 0, 'n'},
        {"stack", required_argument, 0, 's'},   {"bytes", required_argument, 0, 'b'},
        {"hold-ms", required_argument, 0, 'h'}, {"trials", required_argument, 0, 't'},
        {"deadline", required_argument, 0, 'd'}, {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'm':
            plan.mode = optarg[0];
            if (strcmp(optarg, "hold") && strcmp(optarg, "touch") && strcmp(optarg, "create"))
                lab_fail("--mode takes hold, touch or create, not '%s'", optarg);
            break;
        case 'n': plan.threads = lab_number("--threads", optarg, 0, 1000000); break;
        case 's': plan.stack = lab_number("--stack", optarg, 16384, 1L << 30); break;
        case 'b': plan.bytes = lab_number("--bytes", optarg, 4096, 1L << 40); break;
        case 'h': plan.hold_ms = lab_number("--hold-ms", optarg, 1, 60000); break;
        case 't': plan.trials = lab_number("--trials", optarg, 1, 10000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    lab_barrier((pid_t[]){lab_tid()}, 1);
    if (plan.mode == 'h')
        hold();
    else if (plan.mode == 't')
        touch();
    else
        create();
    return lab_done();
}
