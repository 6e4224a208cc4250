#include <stdbool.h>
#include <stdint.h>

static bool send_now(int waiting, int64_t oldest_ns, int64_t deadline_ns)
{
    (void)waiting;
    (void)oldest_ns;
    (void)deadline_ns;
    return oldest_ns > deadline_ns / 4 || waiting >= 20;
}
