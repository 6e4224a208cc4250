/* perf.h - count events around a measured region, and nowhere else.
 *
 *     struct lab_events events = {0};
 *     lab_events_add(&events, "cycles:0:0");   name:type:config, from the command line; as often as there are events
 *     lab_events_open(&events);                for the calling thread only, as one group, switched off
 *     lab_events_on(&events);  ... the region ...  lab_events_off(&events);
 *     lab_events_report(&events);              one record, what was counted since the report before
 *
 * The events of a group are counted together or not at all.  Where the processor has fewer counters than are wanted
 * the kernel lets groups take turns: `running_ns` is then less than `enabled_ns`, and whoever reads the counts must
 * say that they are estimates.  The group does not follow into threads and processes that are started later.
 *
 * Hardware events count the program's own code, without the kernel: that is what an ordinary user may do.
 * Where an event cannot be opened the report says which, and why, and has no count: never a zero.
 */
#ifndef PERF_H
#define PERF_H

#include <linux/perf_event.h>
#include <sys/ioctl.h>

enum { LAB_MOST_EVENTS = 8 };

struct lab_events {
    int wanted;
    struct {
        char name[40];
        uint32_t type;
        uint64_t config;
        uint64_t before;
    } event[LAB_MOST_EVENTS];
    int fd[LAB_MOST_EVENTS];
    int open;             /* all of them are */
    int failed, error;    /* else: which one could not be opened, and why */
    uint64_t enabled_before, running_before;
};

static inline void lab_events_add(struct lab_events *events, const char *text)
{
    unsigned type;
    unsigned long long config;
    if (events->wanted == LAB_MOST_EVENTS)
        lab_fail("--event: %d are the most", LAB_MOST_EVENTS);
    if (sscanf(text, "%39[^:]:%u:%llu", events->event[events->wanted].name, &type, &config) != 3)
        lab_fail("--event takes name:type:config, not '%s'", text);
    events->event[events->wanted].type = type;
    events->event[events->wanted++].config = config;
}

static inline void lab_events_open(struct lab_events *events)
{
    for (int i = 0; i < events->wanted; i++) {
        struct perf_event_attr attr = {
            .size = sizeof attr,
            .type = events->event[i].type,
            .config = events->event[i].config,
            .disabled = i == 0, /* the first one leads: it switches all of them */
            .exclude_kernel = events->event[i].type != PERF_TYPE_SOFTWARE,
            .exclude_hv = 1,
            .read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING,
        };
        events->fd[i] = (int)syscall(SYS_perf_event_open, &attr, 0, -1, i ? events->fd[0] : -1, PERF_FLAG_FD_CLOEXEC);
        if (events->fd[i] < 0) {
            events->failed = i;
            events->error = errno;
            while (i--)
                close(events->fd[i]);
            return;
        }
    }
    events->open = events->wanted > 0;
}

static inline void lab_events_on(const struct lab_events *events)
{
    if (events->open)
        ioctl(events->fd[0], PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
}

static inline void lab_events_off(const struct lab_events *events)
{
    if (events->open)
        ioctl(events->fd[0], PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
}

/* What was counted since the last time; zeros, with `open` unset, where nothing can be. */
struct lab_counts {
    uint64_t enabled_ns, running_ns, value[LAB_MOST_EVENTS];
};

static inline struct lab_counts lab_events_take(struct lab_events *events)
{
    struct lab_counts since = {0};
    if (!events->open)
        return since;
    struct {
        uint64_t count, enabled, running, value[LAB_MOST_EVENTS];
    } now;
    if (read(events->fd[0], &now, sizeof now) < (ssize_t)(3 * sizeof now.count))
        lab_fail("cannot read the events");
    since.enabled_ns = now.enabled - events->enabled_before;
    since.running_ns = now.running - events->running_before;
    events->enabled_before = now.enabled;
    events->running_before = now.running;
    for (int i = 0; i < events->wanted; i++) {
        since.value[i] = now.value[i] - events->event[i].before;
        events->event[i].before = now.value[i];
    }
    return since;
}

/* One record: what was counted, or what could not be. */
static inline void lab_events_print(const struct lab_events *events, const struct lab_counts *counts)
{
    if (!events->wanted)
        return;
    if (!events->open) {
        printf("events failed=%s errno=%d\n", events->event[events->failed].name, events->error);
        return;
    }
    printf("events enabled_ns=%llu running_ns=%llu", (unsigned long long)counts->enabled_ns,
           (unsigned long long)counts->running_ns);
    for (int i = 0; i < events->wanted; i++)
        printf(" %s=%llu", events->event[i].name, (unsigned long long)counts->value[i]);
    putchar('\n');
}

static inline void lab_events_report(struct lab_events *events)
{
    struct lab_counts counts = lab_events_take(events);
    lab_events_print(events, &counts);
}

#endif
