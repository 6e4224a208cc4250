/* roles.c - threads that each play a part: what does a scheduler do for the one, and what does it take from the other?
 *
 *     roles --ms 300 --seed 1 sleeper:1:0:2000:50 hog:3
 *
 * Each word is a role, then how many threads play it, their nice value, and two numbers of µs, A and B:
 *
 *     hog                computes without a pause
 *     sleeper:n:nice:A:B has something to do about every A µs, and it takes about B µs of CPU time; what is due while
 *                        it is late waits its turn, so that no lateness is hidden
 *     pair               n pairs of threads hand a token to and fro, each waiting for the other on a futex
 *     yielder:n:nice:A   computes for A µs, calls sched_yield(), and so on
 *     forker:n:nice:A:B  starts a process that computes for B µs, waits for its end, and starts the next
 *
 * When something is due, and for how long, is drawn from the seed before the start.  Threads are called after their
 * role (hog-1); with --anonymous the seed draws their names and the order in which they are started.
 *
 *     ready tid=...                                    one for each thread
 *     request number=1 due_ns=... late_ns=... response_ns=... served=1
 *                                                      one for each thing due to sleeper 1: when, how long after that
 *                                                      it began and was done; until the end where it never was
 *     thread role=hog number=1 nice=0 cpu_ns=... work=...   what it did: rounds, requests, hand-overs, yields, forks
 *     end elapsed_ns=...                               how long all that took
 */
#include "lab.h"

#include <getopt.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdbool.h>

enum role { HOG, SLEEPER, PAIR, YIELDER, FORKER, ROLES };
static const char *const names[ROLES] = {"hog", "sleeper", "pair", "yielder", "forker"};
enum { MOST_THREADS = 64, ROUND = 250 };

struct request {
    int64_t due_ns, work_ns, late_ns, response_ns;
};

static struct part {
    enum role role;
    long number, nice, a_us, b_us;
    char name[16];
    struct request *requests;
    long count, served;
    _Atomic unsigned *token; /* of a pair: whose turn it is */
    unsigned turn;
    _Atomic pid_t tid;
    int64_t cpu_ns, work;
} parts[MOST_THREADS];

static int part_count;
static long run_ms = 300;
static uint64_t seed = 1;
static bool anonymous;
static pthread_barrier_t gate;
static atomic_bool over;
static int64_t start_ns;

/* xorshift64*: small, and the same on every machine. */
static uint64_t draw(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 0x2545f4914f6cdd1dULL;
}

/* A time about so long: from half of it to one and a half. */
static int64_t about_ns(long us, uint64_t *state)
{
    return us ? us * 500 + (int64_t)(draw(state) % (uint64_t)(us * 1000)) : 0;
}

static void compute_a_round(void)
{
    for (volatile int i = 0; i < ROUND; i++)
        ;
}

/* CPU time, not time: being interrupted does not shorten the work. */
static void compute_for(int64_t ns)
{
    int64_t until = lab_clock_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
    while (lab_clock_ns(CLOCK_THREAD_CPUTIME_ID) < until)
        compute_a_round();
}

static void be_sleeper(struct part *me)
{
    for (long i = 0; i < me->count && !over; i++) {
        struct request *one = &me->requests[i];
        lab_sleep_until(start_ns + one->due_ns);
        one->late_ns = lab_now_ns() - start_ns - one->due_ns;
        compute_for(one->work_ns);
        one->response_ns = lab_now_ns() - start_ns - one->due_ns;
        me->served = me->work = i + 1;
    }
}

static void wait_while(_Atomic unsigned *token, unsigned value)
{
    /* Not for ever: when all is over the partner may have gone. */
    struct timespec patience = {0, 50000000};
    while (*token == value && !over)
        syscall(SYS_futex, token, FUTEX_WAIT_PRIVATE, value, &patience, NULL, 0);
}

static void be_pair(struct part *me)
{
    while (!over) {
        wait_while(me->token, !me->turn);
        compute_a_round();
        *me->token = !me->turn;
        syscall(SYS_futex, me->token, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
        me->work++;
    }
}

static void be_forker(struct part *me)
{
    while (!over) {
        pid_t child = fork();
        if (child < 0)
            lab_fail("cannot fork");
        if (child == 0) {
            compute_for(me->b_us * 1000);
            _exit(0);
        }
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
            ;
        me->work++;
    }
}

static void *play(void *argument)
{
    struct part *me = argument;
    prctl(PR_SET_NAME, me->name);
    prctl(PR_SET_TIMERSLACK, 1UL); /* by default the kernel may deliver a wake-up 50 µs late to save power */
    if (me->nice && setpriority(PRIO_PROCESS, 0, (int)me->nice))
        lab_fail("cannot set the nice value %ld", me->nice);
    me->tid = lab_tid();
    pthread_barrier_wait(&gate);
    lab_sleep_until(start_ns);
    int64_t before = lab_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    switch (me->role) {
    case SLEEPER: be_sleeper(me); break;
    case PAIR: be_pair(me); break;
    case FORKER: be_forker(me); break;
    default:
        while (!over) {
            if (me->role == YIELDER) {
                compute_for(me->a_us * 1000);
                sched_yield();
            } else {
                compute_a_round();
            }
            me->work++;
        }
    }
    me->cpu_ns = lab_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before;
    return NULL;
}

static struct part *add(enum role role, long number, const long *plan)
{
    if (part_count == MOST_THREADS)
        lab_fail("at most %d threads", MOST_THREADS);
    struct part *one = &parts[part_count++];
    one->role = role;
    one->number = number;
    one->nice = plan[0];
    one->a_us = plan[1];
    one->b_us = plan[2];
    snprintf(one->name, sizeof one->name, "%s-%d", names[role], (int)number % 1000);
    return one;
}

/* All that will be due to a sleeper. */
static void lay_down(struct part *one)
{
    uint64_t state = seed * 1000003 + (uint64_t)one->number * 7919 + 1;
    long most = run_ms * 2000 / (one->a_us ? one->a_us : 1) + 1;
    one->requests = lab_shared((size_t)most * sizeof *one->requests);
    for (int64_t due = about_ns(one->a_us, &state); due < run_ms * 1000000 && one->count < most;
         due += about_ns(one->a_us, &state))
        one->requests[one->count++] = (struct request){due, about_ns(one->b_us, &state), 0, 0};
}

/* role:count:nice:A:B, of which all but the role may be left out. */
static void read_role(char *word)
{
    char *place, *role = strtok_r(word, ":", &place);
    long numbers[4] = {1, 0, 1000, 50};
    const long least[4] = {1, -20, 1, 0}, most[4] = {MOST_THREADS, 19, 1000000, 1000000};
    int which = 0;
    while (which < ROLES && (!role || strcmp(role, names[which])))
        which++;
    if (which == ROLES)
        lab_fail("there is no role '%s'", role ? role : "");
    for (int i = 0; i < 4; i++) {
        char *text = strtok_r(NULL, ":", &place);
        if (!text)
            break;
        numbers[i] = lab_number(role, text, least[i], most[i]);
    }
    static long count[ROLES];
    for (long i = 0; i < numbers[0]; i++) {
        struct part *one = add((enum role)which, ++count[which], numbers + 1);
        if (which == SLEEPER)
            lay_down(one);
        if (which == PAIR) {
            _Atomic unsigned *token = lab_shared(sizeof *token);
            struct part *other = add(PAIR, ++count[which], numbers + 1);
            one->token = other->token = token;
            other->turn = 1;
        }
    }
}

static void make_anonymous(void)
{
    uint64_t state = seed * 2654435761 + 17;
    for (int i = part_count - 1; i > 0; i--) {
        int other = (int)(draw(&state) % (uint64_t)(i + 1));
        struct part kept = parts[i];
        parts[i] = parts[other];
        parts[other] = kept;
    }
    for (int i = 0; i < part_count; i++)
        snprintf(parts[i].name, sizeof parts[i].name, "t-%08x", (unsigned)(draw(&state) >> 32));
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"ms", required_argument, 0, 'm'},   {"seed", required_argument, 0, 's'},
        {"anonymous", no_argument, 0, 'a'}, {"deadline", required_argument, 0, 'd'},
        {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'm': run_ms = lab_number("--ms", optarg, 1, 60000); break;
        case 's': seed = (uint64_t)lab_number("--seed", optarg, 0, INT32_MAX); break;
        case 'a': anonymous = true; break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    char example[2][24] = {"sleeper:1:0:2000:50", "hog:3"}; /* without a plan: the example above */
    for (int i = 0; optind == argc && i < 2; i++)
        read_role(example[i]);
    for (int i = optind; i < argc; i++)
        read_role(argv[i]);
    if (anonymous)
        make_anonymous();
    lab_begin(deadline_s);
    pthread_barrier_init(&gate, NULL, (unsigned)part_count + 1);
    pthread_t threads[MOST_THREADS];
    pid_t tids[MOST_THREADS];
    for (int i = 0; i < part_count; i++) {
        threads[i] = lab_thread(play, &parts[i]);
        while (!parts[i].tid)
            sched_yield();
        tids[i] = parts[i].tid;
    }
    lab_barrier(tids, part_count);

    /* All start together on a full 100 ms of the clock, at the same place between two ticks of the scheduler. */
    start_ns = (lab_now_ns() / 100000000 + 1) * 100000000;
    pthread_barrier_wait(&gate);
    lab_sleep_until(start_ns + run_ms * 1000000);
    int64_t elapsed_ns = lab_now_ns() - start_ns;
    over = true;
    for (int i = 0; i < part_count; i++)
        pthread_join(threads[i], NULL);

    for (int i = 0; i < part_count; i++) {
        struct part *one = &parts[i];
        for (long j = 0; j < one->count; j++) {
            struct request *it = &one->requests[j];
            bool served = j < one->served;
            int64_t until_now = elapsed_ns - it->due_ns;
            printf("request number=%ld due_ns=%ld late_ns=%ld response_ns=%ld served=%d\n", one->number,
                   (long)it->due_ns, (long)(served ? it->late_ns : until_now),
                   (long)(served ? it->response_ns : until_now), served);
        }
        printf("thread role=%s number=%ld tid=%d nice=%ld cpu_ns=%ld work=%ld\n", names[one->role],
               one->number, (int)one->tid, one->nice, (long)one->cpu_ns, (long)one->work);
    }
    printf("end elapsed_ns=%ld\n", (long)elapsed_ns);
    return lab_done();
}
