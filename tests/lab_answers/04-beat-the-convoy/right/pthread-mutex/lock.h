/* The C library's mutex: it does not hand over. */
#include <pthread.h>

struct lock {
    pthread_mutex_t mutex;
};

static void lock_init(struct lock *lock) { pthread_mutex_init(&lock->mutex, NULL); }

static void lock_take(struct lock *lock) { pthread_mutex_lock(&lock->mutex); }

static void lock_give(struct lock *lock) { pthread_mutex_unlock(&lock->mutex); }
