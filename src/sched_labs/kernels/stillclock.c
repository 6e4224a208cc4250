/* stillclock.c - a library that stops the calendar for one program: gettimeofday() always says the same.
 *
 * QEMU chooses the size of its emulated TLB by how much of it was used in the last 100 ms of the calendar
 * (tlb_mmu_resize_locked in accel/tcg/cputlb.c).  With the size, entries live longer or shorter, and a kernel
 * sees other accessed bits in its page tables and takes another path.  So an instruction-counted guest that
 * ran a little slower, on a busy machine, came out with other digits.
 */
#include <sys/time.h>

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    now->tv_sec = 1767225600; /* 2026-01-01, where QEMU's -rtc base= begins as well */
    now->tv_usec = 0;
    return 0;
}
