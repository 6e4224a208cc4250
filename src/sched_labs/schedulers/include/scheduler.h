/* scheduler.h - what a scheduler of your own needs to know of the kernel, and no more.
 *
 * The kernel asks, and functions of yours answer (struct sched_ext_ops).  What they do not say, the kernel decides:
 * a scheduler without any function is one queue for each memory node, first come, first served.
 *
 *     select_cpu   a thread wakes: on which CPU should it run?
 *     enqueue      it is ready: into which queue with it, and for how long may it run?
 *     dispatch     this CPU needs a thread: from which queue?  (prev had it; where its slice is set anew, it goes on)
 *     running      this thread gets the CPU now
 *     stopping     this thread loses it; is it still runnable?
 *
 * A queue is called a dispatch queue (DSQ).  Every CPU has one from which it takes its threads, SCX_DSQ_LOCAL; the
 * others you make yourself in `init`.  A queue is in the order of arrival, or in the order of a number (vtime).
 *
 * The structures are the kernel's with the few fields that are used here: the loader looks up where each field is in
 * the kernel that it loads the scheduler into, so that one file fits many kernels.
 */
#ifndef SCHEDULER_H
#define SCHEDULER_H

typedef unsigned char u8;
typedef int s32;
typedef unsigned int u32;
typedef long long s64;
typedef unsigned long long u64;
#define bool _Bool
#define true 1
#define false 0

#define SEC(name) __attribute__((section(name), used))
#define KFUNC __attribute__((section(".ksyms")))

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sched_ext_entity {
    u64 slice;     /* for how many ns it may still run */
    u64 dsq_vtime; /* yours to use; a queue can be in its order */
    u32 weight;    /* 100 for nice 0, more for what is more important */
    u32 flags;     /* SCX_TASK_QUEUED: it is runnable */
};

struct sched_entity {
    u64 sum_exec_runtime; /* the CPU time that it has used so far, in ns */
};

struct task_struct {
    s32 pid;
    char comm[16]; /* its name */
    struct sched_entity se;
    struct sched_ext_entity scx;
};

#pragma clang attribute pop

/* Of the kernel's structure the members that schedulers here fill in; the loader finds them by name. */
struct sched_ext_ops {
    s32 (*select_cpu)(); /* struct task_struct *p, s32 prev_cpu, u64 wake_flags */
    void (*enqueue)();   /* struct task_struct *p, u64 enq_flags */
    void (*dequeue)();   /* struct task_struct *p, u64 deq_flags */
    void (*dispatch)();  /* s32 cpu, struct task_struct *prev */
    void (*tick)();      /* struct task_struct *p */
    void (*runnable)();  /* struct task_struct *p, u64 enq_flags */
    void (*running)();   /* struct task_struct *p */
    void (*stopping)();  /* struct task_struct *p, bool runnable */
    void (*quiescent)(); /* struct task_struct *p, u64 deq_flags */
    bool (*yield)();     /* struct task_struct *from, struct task_struct *to: 0 for whom it may concern */
    void (*enable)();    /* struct task_struct *p: it is this scheduler's from now on */
    void (*set_weight)(); /* struct task_struct *p, u32 weight */
    s32 (*init)();       /* BPF_STRUCT_OPS_SLEEPABLE, no arguments */
    u64 flags;
    u32 timeout_ms; /* a thread that is runnable for so long and does not run is a stall */
    char name[128];
};

static const u64 SCX_DSQ_GLOBAL = 1ULL << 63 | 1;
static const u64 SCX_DSQ_LOCAL = 1ULL << 63 | 2;
static const u64 SCX_ENQ_WAKEUP = 1;
static const u64 SCX_ENQ_PREEMPT = 1ULL << 32; /* and take the CPU from the thread that has it */
static const u64 SCX_KICK_IDLE = 1;            /* only if it has nothing to do */
static const u32 SCX_TASK_QUEUED = 1;
static const u64 SCX_SLICE_DFL = 20000000;    /* 20 ms */

/* To the head of the queue, not to its end.  Its number is another in 6.18 than in 7.3, so that the loader looks it
 * up by its name, as it does with the fields above. */
enum scx_enq_flags { SCX_ENQ_HEAD = 1 };
#define SCX_ENQ_HEAD ((u64)__builtin_preserve_enum_value(*(enum scx_enq_flags *)SCX_ENQ_HEAD, 1))

extern s32 scx_bpf_create_dsq(u64 dsq_id, s32 node) KFUNC;
extern void scx_bpf_dsq_insert(struct task_struct *p, u64 dsq_id, u64 slice, u64 enq_flags) KFUNC;
extern void scx_bpf_dsq_insert_vtime(struct task_struct *p, u64 dsq_id, u64 slice, u64 vtime, u64 enq_flags) KFUNC;
extern bool scx_bpf_dsq_move_to_local(u64 dsq_id) KFUNC;
extern s32 scx_bpf_dsq_nr_queued(u64 dsq_id) KFUNC;
extern s32 scx_bpf_select_cpu_dfl(struct task_struct *p, s32 prev_cpu, u64 wake_flags, bool *is_idle) KFUNC;
extern s32 scx_bpf_task_cpu(const struct task_struct *p) KFUNC;
extern void scx_bpf_kick_cpu(s32 cpu, u64 flags) KFUNC;
extern void scx_bpf_error_bstr(char *format, u64 *data, u32 data_bytes) KFUNC;
static u64 (*const bpf_ktime_get_ns)(void) = (void *)5;

/* Is a before b?  Right also after the count has overflowed. */
static inline bool time_before(u64 a, u64 b)
{
    return (s64)(a - b) < 0;
}

/* What you note for each CPU stands in an array of MOST_CPUS, at cpu_of(p): the CPU that p has, or had last. */
enum { MOST_CPUS = 64 };

static inline u32 cpu_of(struct task_struct *p)
{
    return (u32)scx_bpf_task_cpu(p) % MOST_CPUS;
}

/* The CPU time, in ns, that p has used since it got the CPU, or since you asked last.  In dispatch for prev, and in
 * stopping: the kernel counts it up to that moment. */
static u64 _used_before_ns[MOST_CPUS];

static inline u64 newly_used_ns(struct task_struct *p)
{
    u64 *before_ns = &_used_before_ns[cpu_of(p)], used_ns = p->se.sum_exec_runtime - *before_ns;
    *before_ns += used_ns;
    return used_ns;
}

SEC("tp_btf/sched_switch") int _got_the_cpu(u64 *ctx)
{
    struct task_struct *next = (void *)ctx[2];
    _used_before_ns[cpu_of(next)] = next->se.sum_exec_runtime;
    return 0;
}

/* for_each_queued(p, dsq_id) { ... }: every thread in a queue, in its order.  move_to_local(p) takes this one out of
 * it, to the CPU that asks; it fails where another CPU was quicker.  In dispatch only. */
struct bpf_iter_scx_dsq {
    u64 opaque[6];
};
extern s32 bpf_iter_scx_dsq_new(struct bpf_iter_scx_dsq *it, u64 dsq_id, u64 flags) KFUNC;
extern struct task_struct *bpf_iter_scx_dsq_next(struct bpf_iter_scx_dsq *it) KFUNC;
extern void bpf_iter_scx_dsq_destroy(struct bpf_iter_scx_dsq *it) KFUNC;
extern bool scx_bpf_dsq_move(struct bpf_iter_scx_dsq *it, struct task_struct *p, u64 dsq_id, u64 enq_flags) KFUNC;

/* Named in between because clang describes no function to the loader that only cleanup() calls. */
#define for_each_queued(p, dsq_id)                                                         \
    for (struct bpf_iter_scx_dsq _it __attribute__((cleanup(bpf_iter_scx_dsq_destroy))),   \
         *_once = (bpf_iter_scx_dsq_new(&_it, dsq_id, 0), (void)bpf_iter_scx_dsq_destroy, &_it); \
         _once; _once = 0)                                                                 \
        for (struct task_struct *p; (p = bpf_iter_scx_dsq_next(&_it));)
#define move_to_local(p) scx_bpf_dsq_move(&_it, p, SCX_DSQ_LOCAL, 0)

/* Who is first in a queue: looked at, and left there.  False for an empty queue. */

struct first {
    u64 vtime;
    u32 weight;
};

static inline __attribute__((always_inline)) bool first_in(u64 dsq_id, struct first *found)
{
    struct bpf_iter_scx_dsq it;
    struct task_struct *p = 0;
    if (!bpf_iter_scx_dsq_new(&it, dsq_id, 0))
        p = bpf_iter_scx_dsq_next(&it);
    if (p) {
        found->vtime = p->scx.dsq_vtime;
        found->weight = p->scx.weight;
    }
    bool any = p != 0;
    bpf_iter_scx_dsq_destroy(&it);
    return any;
}

/* Gives the machine back to the kernel's own scheduler, and says why: scx_bpf_error("no queue"). */
#define scx_bpf_error(text)                                      \
    ({                                                           \
        static char _text[] = text;                              \
        u64 _none[1] = {0};                                      \
        scx_bpf_error_bstr(_text, _none, 0);                     \
    })

/* void BPF_STRUCT_OPS(enqueue, struct task_struct *p, u64 enq_flags) { ... }
 * The kernel hands the arguments over in one array; this takes them out.  _enqueue(p, enq_flags) is the same for your
 * own calls. */
#define BPF_STRUCT_OPS(name, args...) _CALLBACK("struct_ops/" #name, name, ##args)
#define BPF_STRUCT_OPS_SLEEPABLE(name, args...) _CALLBACK("struct_ops/sleepable/" #name, name, ##args)
#define _INLINE static inline __attribute__((always_inline))
#define _CALLBACK(section, name, args...)                                        \
    name(u64 *ctx);                                                              \
    _INLINE typeof(name((u64 *)0)) _##name(args);                                \
    SEC(section) typeof(name((u64 *)0)) name(u64 *ctx)                           \
    {                                                                            \
        _Pragma("clang diagnostic push")                                         \
        _Pragma("clang diagnostic ignored \"-Wint-conversion\"")                 \
        return _##name(_PASS(_, ##args, _ARGS3, _ARGS2, _ARGS1, ));              \
        _Pragma("clang diagnostic pop")                                          \
    }                                                                            \
    _INLINE typeof(name((u64 *)0)) _##name(args)
#define _PASS(_, _1, _2, _3, n, ...) n
#define _ARGS1 (void *)ctx[0]
#define _ARGS2 (void *)ctx[0], (void *)ctx[1]
#define _ARGS3 (void *)ctx[0], (void *)ctx[1], (void *)ctx[2]

/* SCX_OPS_DEFINE(fifo, .enqueue = enqueue, ...): the scheduler itself. */
#define SCX_OPS_DEFINE(scheduler, members...)                                    \
    _Pragma("clang diagnostic ignored \"-Winitializer-overrides\"")              \
    SEC(".struct_ops") struct sched_ext_ops scheduler = {                        \
        .name = #scheduler, .timeout_ms = 1000, members}

SEC("license") char LICENSE[] = "GPL"; /* the kernel lends its functions to nothing else */

#include "recorder.h" /* who ran when, and from which queue: nothing that a scheduler needs */
#endif
