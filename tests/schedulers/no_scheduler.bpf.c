#include "scheduler.h"
static void nothing(void) {}
