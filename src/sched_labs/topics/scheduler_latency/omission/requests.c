/* requests.c - a server that stalls once, and two kinds of client: which of them notices?
 *
 * The server does a fixed piece of work for each request, one after the other.  Once, in the middle, it stands still
 * for --stall-ms, as a program does in a page fault, a lock or a collection of garbage.
 *
 *     closed   the client sends, waits for the answer, and sends the next when its time has come, or at once if that
 *              has passed: while the server stalls, it sends nothing
 *     open     requests are due at fixed points in time and are sent then, whatever the server does: so real users
 *              behave, who do not know of one another
 *
 * Both note how long each request took, from the sending to the end of the server's work.
 *
 *     ready tid=CLIENT tid=SERVER
 *     request sent_ns=... took_ns=...               sent_ns counts from the block's start
 *     end block=0 requests=... stall_ns=... run_delay_ns=...
 *         stall_ns       how long the server really stood still
 *         run_delay_ns   how long it was runnable without a CPU, all block long (schedstat; -1 where not counted)
 *
 * Each of --blocks blocks starts with a line on standard input and lasts --duration-ms.
 */
#include "lab.h"
#include "work.h"

#include <getopt.h>
#include <inttypes.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>

static struct {
    long period_us, work_us, stall_ms, duration_ms, blocks;
    bool open;
} plan = {1000, 50, 50, 500, 1, false};

static struct request {
    int64_t sent_ns, took_ns;
} *requests;
static long most, sent;

static _Atomic pid_t client_tid, server_tid;
static sem_t waiting, answered;
static pthread_barrier_t gate;
static atomic_bool over;
static int64_t start_ns, end_ns, stall_ns, run_delay_ns;
static long work_steps;

static void take(sem_t *semaphore)
{
    while (sem_wait(semaphore) && errno == EINTR)
        ;
}

static int64_t run_delay_now(void)
{
    int64_t ran, waited = -1;
    FILE *file = fopen("/proc/thread-self/schedstat", "re");
    if (file) {
        if (fscanf(file, "%" SCNd64 " %" SCNd64, &ran, &waited) != 2 || ran == 0)
            waited = -1;
        fclose(file);
    }
    return waited;
}

static void send_requests(void)
{
    prctl(PR_SET_TIMERSLACK, 1UL);
    int64_t due = start_ns;
    for (sent = 0; sent < most && due < end_ns;) {
        lab_sleep_until(due);
        /* The open client counts from when the request was due: it is the user who waits, not the client. */
        requests[sent].sent_ns = plan.open ? due : lab_now_ns();
        int64_t next = requests[sent].sent_ns + plan.period_us * 1000;
        sent++;
        sem_post(&waiting);
        if (!plan.open) {
            take(&answered);
            int64_t now = lab_now_ns();
            if (next < now)
                next = now;
        }
        due = next;
    }
}

static void *be_client(void *unused)
{
    client_tid = lab_tid();
    for (long block = 0; block < plan.blocks; block++) {
        pthread_barrier_wait(&gate);
        send_requests();
        atomic_store(&over, true);
        sem_post(&waiting); /* one more than there are requests: the server looks up and sees that it is over */
        pthread_barrier_wait(&gate);
    }
    return unused;
}

static void serve(void)
{
    int64_t stall_from = start_ns + plan.duration_ms * 1000000 / 2;
    bool stalled = false;
    for (long served = 0;; served++) {
        take(&waiting);
        if (atomic_load(&over) && served == sent)
            return;
        if (!stalled && lab_now_ns() >= stall_from) {
            int64_t before = lab_now_ns();
            lab_sleep_until(before + plan.stall_ms * 1000000);
            stall_ns = lab_now_ns() - before;
            stalled = true;
        }
        work(work_steps);
        requests[served].took_ns = lab_now_ns() - requests[served].sent_ns;
        sem_post(&answered);
    }
}

static void *be_server(void *unused)
{
    server_tid = lab_tid();
    for (long block = 0; block < plan.blocks; block++) {
        pthread_barrier_wait(&gate);
        int64_t before = run_delay_now();
        serve();
        run_delay_ns = before < 0 ? -1 : run_delay_now() - before;
        pthread_barrier_wait(&gate);
    }
    return unused;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"client", required_argument, 0, 'c'},      {"period-us", required_argument, 0, 'p'},
        {"work-us", required_argument, 0, 'u'},     {"stall-ms", required_argument, 0, 's'},
        {"duration-ms", required_argument, 0, 't'}, {"blocks", required_argument, 0, 'b'},
        {"deadline", required_argument, 0, 'd'},    {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'p': plan.period_us = lab_number("--period-us", optarg, 10, 1000000); break;
        case 'u': plan.work_us = lab_number("--work-us", optarg, 1, 100000); break;
        case 's': plan.stall_ms = lab_number("--stall-ms", optarg, 0, 10000); break;
        case 't': plan.duration_ms = lab_number("--duration-ms", optarg, 1, 600000); break;
        case 'b': plan.blocks = lab_number("--blocks", optarg, 1, 10000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        case 'c':
            plan.open = !strcmp(optarg, "open");
            if (!plan.open && strcmp(optarg, "closed"))
                lab_fail("--client takes open or closed, not '%s'", optarg);
            break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    work_steps = 10000 * plan.work_us * 1000 / (quickest(10000) + 1) + 1;
    most = plan.duration_ms * 1000 / plan.period_us + 2;
    requests = lab_shared((size_t)most * sizeof *requests);
    memset(requests, 0, (size_t)most * sizeof *requests); /* no page fault later */
    sem_init(&waiting, 0, 0);
    sem_init(&answered, 0, 0);
    pthread_barrier_init(&gate, NULL, 3);
    pthread_t client = lab_thread(be_client, NULL), server = lab_thread(be_server, NULL);
    while (!client_tid || !server_tid)
        sched_yield();
    pid_t tids[2] = {client_tid, server_tid};
    lab_barrier(tids, 2);

    for (long block = 0; block < plan.blocks; block++) {
        if (block > 0)
            lab_wait_for_a_line();
        while (!sem_trywait(&answered))
            ; /* what the open client did not wait for */
        atomic_store(&over, false);
        stall_ns = 0;
        start_ns = lab_now_ns() + 10000000;
        end_ns = start_ns + plan.duration_ms * 1000000;
        pthread_barrier_wait(&gate);
        pthread_barrier_wait(&gate);
        for (long i = 0; i < sent; i++)
            printf("request sent_ns=%" PRId64 " took_ns=%" PRId64 "\n", requests[i].sent_ns - start_ns,
                   requests[i].took_ns);
        printf("end block=%ld requests=%ld stall_ns=%" PRId64 " run_delay_ns=%" PRId64 "\n", block, sent, stall_ns,
               run_delay_ns);
        fflush(stdout);
    }
    pthread_join(client, NULL);
    pthread_join(server, NULL);
    return lab_done();
}
