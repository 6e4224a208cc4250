#include "scheduler.h"
SCX_OPS_DEFINE(no_member, .fairness = 1);
