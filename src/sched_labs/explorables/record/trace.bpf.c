/* trace.bpf.c - what the scheduler did with the watched processes, event by event, for the recordings of this book.
 *
 * Each CPU writes its own events into its own part of one array.  The caller defines PID_OFFSET and TGID_OFFSET (of
 * task_struct, from BTF), STATE_OFFSET, CPUS, EVENTS (for each CPU) and WATCHED, a test on a process id.
 */

enum { SWITCH, WAKING, WAKEUP, ENTER, LEAVE };

struct event {
    u64 at_ns; /* CLOCK_MONOTONIC */
    u32 what, tid; /* SWITCH: who leaves; WAKING, WAKEUP: who is woken; ENTER, LEAVE: whose system call */
    u32 other;     /* SWITCH: who comes; WAKING: who wakes; ENTER: the call's number */
    u32 state;     /* SWITCH: what the one that leaves is about to do, 0 is to go on */
};

BPF_TABLE("array", u32, struct event, events, CPUS * EVENTS);
BPF_TABLE("array", u32, u64, written, CPUS);

static inline u32 number(u64 task, u32 offset)
{
    u32 value = 0;
    bpf_probe_read_kernel(&value, sizeof value, (void *)(task + offset));
    return value;
}

static inline void keep(u32 what, u32 tid, u32 other, u32 state)
{
    u64 now = bpf_ktime_get_ns();
    u32 cpu = bpf_get_smp_processor_id();
    u64 *count = written.lookup(&cpu);
    if (!count)
        return;
    u32 place = cpu * EVENTS + (*count & (EVENTS - 1));
    struct event *event = *count < EVENTS ? events.lookup(&place) : 0;
    *count += 1;
    if (!event)
        return;
    event->at_ns = now;
    event->what = what;
    event->tid = tid;
    event->other = other;
    event->state = state;
}

int on_switch(struct bpf_raw_tracepoint_args *context)
{
    u64 prev = context->args[1], next = context->args[2];
    if (WATCHED(number(prev, TGID_OFFSET)) || WATCHED(number(next, TGID_OFFSET)))
        keep(SWITCH, number(prev, PID_OFFSET), number(next, PID_OFFSET), number(prev, STATE_OFFSET));
    return 0;
}

int on_waking(struct bpf_raw_tracepoint_args *context)
{
    if (WATCHED(number(context->args[0], TGID_OFFSET)))
        keep(WAKING, number(context->args[0], PID_OFFSET), (u32)bpf_get_current_pid_tgid(), 0);
    return 0;
}

int on_wakeup(struct bpf_raw_tracepoint_args *context)
{
    if (WATCHED(number(context->args[0], TGID_OFFSET)))
        keep(WAKEUP, number(context->args[0], PID_OFFSET), (u32)bpf_get_current_pid_tgid(), 0);
    return 0;
}

int on_enter(struct bpf_raw_tracepoint_args *context)
{
    u64 both = bpf_get_current_pid_tgid();
    if (WATCHED((u32)(both >> 32)))
        keep(ENTER, (u32)both, (u32)context->args[1], 0);
    return 0;
}

int on_leave(struct bpf_raw_tracepoint_args *context)
{
    u64 both = bpf_get_current_pid_tgid();
    if (WATCHED((u32)(both >> 32)))
        keep(LEAVE, (u32)both, 0, 0);
    return 0;
}
