/* No scheduler: the kernel's own one stays, and is only watched. */
#include "scheduler.h"
