/* In the order of arrival, without sleeping: offers the CPU until its turn has come. */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>

struct lock {
    _Atomic uint32_t next, serving;
};

static void lock_init(struct lock *lock)
{
    atomic_store(&lock->next, 0);
    atomic_store(&lock->serving, 0);
}

static void lock_take(struct lock *lock)
{
    uint32_t mine = atomic_fetch_add(&lock->next, 1);
    while (atomic_load(&lock->serving) != mine)
        sched_yield();
}

static void lock_give(struct lock *lock) { atomic_fetch_add(&lock->serving, 1); }
