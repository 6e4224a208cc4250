/* In the order of arrival, and everybody is woken for it. */
#include <linux/futex.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct lock {
    _Atomic uint32_t next;    /* the ticket for whoever comes next */
    _Atomic uint32_t serving; /* whose turn it is; also the futex word */
};

static void lock_init(struct lock *lock)
{
    atomic_store(&lock->next, 0);
    atomic_store(&lock->serving, 0);
}

static void lock_take(struct lock *lock)
{
    uint32_t mine = atomic_fetch_add(&lock->next, 1), now;
    while ((now = atomic_load(&lock->serving)) != mine)
        syscall(SYS_futex, &lock->serving, FUTEX_WAIT_PRIVATE, now, NULL, NULL, 0);
}

static void lock_give(struct lock *lock)
{
    atomic_fetch_add(&lock->serving, 1);
    if (atomic_load(&lock->next) != atomic_load(&lock->serving)) /* somebody waits */
        syscall(SYS_futex, &lock->serving, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
