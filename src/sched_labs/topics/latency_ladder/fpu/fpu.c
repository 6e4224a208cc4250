/* fpu.c - do vector registers make a switch dearer?
 *
 * Two threads on one CPU pass a byte to and fro.  Before each hand-over both fill a set of registers: none, the SSE
 * half, the AVX half, all of AVX-512; or NEON.  The kernel must then save that state when it switches away, and
 * bring it back before the thread's next instruction.  x86 processors know which parts of the state are in their
 * initial value and save only the others, so the program also asks the processor what it had in use (XGETBV).
 *
 * As in pingpong.c, the same system calls are made alone before every block, with the registers filled as often.
 */
#include "lab.h"

#include <getopt.h>

/* ---- the registers ----------------------------------------------------------------------------------------- */

static void nothing(void) {}

#if defined(__x86_64__)
#include <cpuid.h>

#define ALL_16(op) op("0") op("1") op("2") op("3") op("4") op("5") op("6") op("7") op("8") op("9") op("10") op("11") \
    op("12") op("13") op("14") op("15")
#define UPPER_16(op) op("16") op("17") op("18") op("19") op("20") op("21") op("22") op("23") op("24") op("25") \
    op("26") op("27") op("28") op("29") op("30") op("31")
#define XMM(n) "pcmpeqd %%xmm" n ", %%xmm" n "\n"                             /* all ones */
#define YMM(n) "vcmpps $15, %%ymm" n ", %%ymm" n ", %%ymm" n "\n"             /* 15: true, so all ones */
#define ZMM(n) "vpternlogd $255, %%zmm" n ", %%zmm" n ", %%zmm" n "\n"        /* 255: true whatever comes in */

/* The compiler keeps nothing in these registers across a call, so there is nothing to tell it. */
__attribute__((noinline)) static void fill_sse(void) { __asm__ volatile(ALL_16(XMM) : : : "memory"); }
__attribute__((noinline)) static void fill_avx(void) { __asm__ volatile(ALL_16(YMM) : : : "memory"); }
__attribute__((noinline)) static void fill_avx512(void)
{
    __asm__ volatile(ALL_16(ZMM) UPPER_16(ZMM) "kxnorw %%k1, %%k1, %%k1\n" : : : "memory");
}

/* Whether the kernel saves and restores by XSAVE, and programs may use it: so on all but very old processors. */
static int has_xsave(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_OSXSAVE);
}

/* Bring the vector registers back to their initial value: restore them from an image that says "initial". */
static void make_clean(void)
{
    static _Alignas(64) unsigned char image[4096];
    if (!has_xsave())
        return;
    *(unsigned *)(image + 24) = 0x1f80; /* the control word MXCSR, which is loaded all the same */
    unsigned vectors = 0xe6;            /* SSE, AVX, and the three parts of AVX-512; no other component */
    __asm__ volatile("xrstor64 (%0)" : : "r"(image), "a"(vectors), "d"(0) : "memory");
}

/* Whether the processor can say what is in use.  Asked once, at the start: in a virtual machine CPUID goes to the
 * hypervisor, and the SSE state comes back from there as in use, though nobody filled it. */
static int sees_use;
__attribute__((constructor)) static void ask_whether_it_sees_use(void)
{
    unsigned a, b, c, d;
    sees_use = has_xsave() && __get_cpuid_count(13, 1, &a, &b, &c, &d) && (a & 4);
}

/* The bytes of state that are not in their initial value, by the processor's own account. */
static long bytes_in_use(void)
{
    if (!sees_use)
        return -1;
    unsigned low, high, b, c, d;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1)); /* before any CPUID, see above */
    long bytes = (low & 1 ? 160 : 0) + (low & 2 ? 256 : 0); /* x87, SSE: fixed places in the image */
    for (unsigned part = 2, size; part < 32; part++)
        if (low & 1u << part && __get_cpuid_count(13, part, &size, &b, &c, &d))
            bytes += size;
    return bytes;
}

/* The size of the image that would hold everything that this kernel has switched on. */
static long image_bytes(void)
{
    unsigned a, b, c, d;
    return __get_cpuid_count(13, 0, &a, &b, &c, &d) ? (long)b : -1;
}

/* Names every part of the state that this kernel has switched on, with its bytes in the image: the vector
 * registers are some of them, and matrix tiles (AMX) may be by far the largest. */
static void name_components(void)
{
    static const char *const names[32] = {
        [0] = "x87", [1] = "sse", [2] = "avx", [3] = "mpx_bounds", [4] = "mpx_control", [5] = "avx512_masks",
        [6] = "avx512_upper_halves", [7] = "avx512_registers_16_to_31", [9] = "protection_keys",
        [17] = "amx_configuration", [18] = "amx_tiles",
    };
    if (!has_xsave())
        return;
    unsigned on, high, size, b, c, d;
    __asm__ volatile("xgetbv" : "=a"(on), "=d"(high) : "c"(0));
    for (unsigned part = 0; part < 32; part++) {
        if (!(on & 1u << part))
            continue;
        size = part == 0 ? 160 : 256; /* the first two have fixed places in the legacy area */
        if (part > 1 && !__get_cpuid_count(13, part, &size, &b, &c, &d))
            continue;
        printf("component name=%s bytes=%u\n", names[part] ? names[part] : "other", size);
    }
}

static int has_avx(void) { return has_xsave() && __builtin_cpu_supports("avx"); }
static int has_avx512(void) { return has_xsave() && __builtin_cpu_supports("avx512f"); }

#elif defined(__aarch64__)

/* Without v8 to v15, which a function must preserve. */
#define REGISTER(n) "movi v" n ".16b, #255\n"
__attribute__((noinline)) static void fill_neon(void)
{
    __asm__ volatile(REGISTER("0") REGISTER("1") REGISTER("2") REGISTER("3") REGISTER("4") REGISTER("5") REGISTER("6")
                     REGISTER("7") REGISTER("16") REGISTER("17") REGISTER("18") REGISTER("19") REGISTER("20")
                     REGISTER("21") REGISTER("22") REGISTER("23") REGISTER("24") REGISTER("25") REGISTER("26")
                     REGISTER("27") REGISTER("28") REGISTER("29") REGISTER("30") REGISTER("31") : : : "memory");
}
static int yes(void) { return 1; }
static void make_clean(void) {}
static long bytes_in_use(void) { return -1; } /* this processor does not say */
static long image_bytes(void) { return 32 * 16 + 16; } /* 32 registers, status and control */
static void name_components(void) { printf("component name=neon bytes=%d\n", 32 * 16); }
#else
static void make_clean(void) {}
static long bytes_in_use(void) { return -1; }
static long image_bytes(void) { return -1; }
static void name_components(void) {}
#endif

/* "integer" comes twice, first and last: how far the two differ is the noise. */
static const struct kind {
    const char *name;
    void (*fill)(void);
    int (*has)(void);
} kinds[] = {
    {"integer", nothing, NULL},
#if defined(__x86_64__)
    {"sse", fill_sse, has_xsave},
    {"avx", fill_avx, has_avx},
    {"avx512", fill_avx512, has_avx512},
#elif defined(__aarch64__)
    {"neon", fill_neon, yes}, /* SVE is not here: the kernel may drop its upper part at any system call */
#endif
    {"integer_again", nothing, NULL},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* ---- the ping-pong ----------------------------------------------------------------------------------------- */

static struct {
    pthread_barrier_t gate;
    int pipe[2][2];
    const struct kind *kind; /* of the block to come */
    struct lab_tally tally[2];
    volatile pid_t partner_tid;
} both;

static long round_trips = 1000, trials = 5;

static void pass(int to)
{
    if (write(both.pipe[to][1], "x", 1) != 1)
        lab_fail("write");
}

static void await(int me)
{
    char byte;
    if (read(both.pipe[me][0], &byte, 1) != 1)
        lab_fail("read");
}

static int64_t play(int me, long *in_use)
{
    pthread_barrier_wait(&both.gate);
    const struct kind *kind = both.kind;
    make_clean();
    struct lab_tally before = lab_tally_now();
    int64_t start = lab_now_ns();
    for (long i = 0; i < round_trips; i++) {
        if (me == 1)
            await(1);
        kind->fill();
        pass(!me);
        if (me == 0)
            await(0);
    }
    int64_t elapsed = lab_now_ns() - start;
    if (in_use) { /* side 0 alone: side 1 is here while side 0's clock still runs */
        kind->fill();
        *in_use = bytes_in_use();
    }
    both.tally[me] = lab_tally_since(before);
    pthread_barrier_wait(&both.gate);
    return elapsed;
}

static void *partner(void *unused)
{
    both.partner_tid = lab_tid();
    for (;;)
        play(1, NULL);
    return unused;
}

static void report(long trial, const char *condition, int64_t elapsed, struct lab_tally tally, long in_use)
{
    printf("block trial=%ld registers=%s condition=%s round_trips=%ld elapsed_ns=%ld voluntary=%ld involuntary=%ld "
           "in_use_bytes=%ld\n",
           trial, both.kind->name, condition, round_trips, (long)elapsed, (long)tally.voluntary,
           (long)tally.involuntary, in_use);
}

static void alone_then_together(long trial)
{
    make_clean();
    struct lab_tally before = lab_tally_now();
    int64_t start = lab_now_ns();
    for (long i = 0; i < 2 * round_trips; i++) {
        both.kind->fill();
        pass(0);
        await(0);
    }
    int64_t elapsed = lab_now_ns() - start;
    struct lab_tally tally = lab_tally_since(before);
    both.kind->fill();
    report(trial, "alone", elapsed, tally, bytes_in_use());

    long in_use;
    elapsed = play(0, &in_use);
    tally = both.tally[0];
    tally.voluntary += both.tally[1].voluntary;
    tally.involuntary += both.tally[1].involuntary;
    report(trial, "exchange", elapsed, tally, in_use);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        {"round-trips", required_argument, 0, 'r'}, {"trials", required_argument, 0, 't'},
        {"deadline", required_argument, 0, 'd'},    {0, 0, 0, 0},
    };
    unsigned deadline_s = 60;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        switch (option) {
        case 'r': round_trips = lab_number("--round-trips", optarg, 1, 100000000); break;
        case 't': trials = lab_number("--trials", optarg, 1, 100000); break;
        case 'd': deadline_s = (unsigned)lab_number("--deadline", optarg, 1, 86400); break;
        default: return 2;
        }
    }
    lab_begin(deadline_s);
    if (pipe(both.pipe[0]) < 0 || pipe(both.pipe[1]) < 0)
        lab_fail("pipe");
    pthread_barrier_init(&both.gate, NULL, 2);
    lab_thread(partner, NULL);
    while (!both.partner_tid)
        sched_yield();
    lab_barrier((pid_t[]){lab_tid(), both.partner_tid}, 2);

    printf("image bytes=%ld\n", image_bytes());
    name_components();
    for (long trial = 0; trial < trials; trial++)
        for (int turn = 0; turn < KINDS; turn++) {
            both.kind = &kinds[trial % 2 ? KINDS - 1 - turn : turn]; /* there and back, so that drift cancels */
            if (!both.kind->has || both.kind->has())
                alone_then_together(trial);
        }
    return lab_done();
}
