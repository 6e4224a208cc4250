/* batch.h - yours: shall what is waiting be sent now?  This one never waits. */
#include <stdbool.h>
#include <stdint.h>

/* waiting: how many events have not been sent yet, at least one.
 * oldest_ns: how long ago the first of them was due.  deadline_ns: how long an event may take. */
static bool send_now(int waiting, int64_t oldest_ns, int64_t deadline_ns)
{
    (void)waiting;
    (void)oldest_ns;
    (void)deadline_ns;
    return true;
}
