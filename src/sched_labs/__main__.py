"""`sched-labs`, which is `python -m sched_labs`, from its first moment on."""

import signal
import sys


def main() -> int:
    """Load the command line, then run it; Ctrl-C while it loads ends it at once, and by the signal."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # not ignored, as in the background of a script
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from . import cli

    signal.signal(signal.SIGINT, handler)
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
