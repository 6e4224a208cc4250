/* Tries a hundred times before it sleeps. */
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

struct lock {
    _Atomic uint32_t state; /* 0 free, 1 taken, 2 taken and somebody waits */
};

static void lock_init(struct lock *lock) { atomic_store(&lock->state, 0); }

static void lock_take(struct lock *lock)
{
    for (int tries = 0; tries < 100; tries++) {
        uint32_t seen = 0;
        if (atomic_compare_exchange_strong(&lock->state, &seen, 1))
            return;
    }
    while (atomic_exchange(&lock->state, 2) != 0)
        syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}

static void lock_give(struct lock *lock)
{
    if (atomic_exchange(&lock->state, 0) == 2)
        syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
