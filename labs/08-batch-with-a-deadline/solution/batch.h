/* batch.h - the age of the oldest event decides: it holds at every rate.
 * A third of the deadline: the rest is for the consumer, who has to be woken and may have to wait for a CPU. */
#include <stdbool.h>
#include <stdint.h>

static bool send_now(int waiting, int64_t oldest_ns, int64_t deadline_ns)
{
    return oldest_ns > deadline_ns / 3 || waiting >= 1000;
}
