"""`python -m sched_labs` is `sched-labs`."""

import sys

from .cli import main

sys.exit(main())
