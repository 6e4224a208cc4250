"""How the recorded runs of the explorables are made: `python -m sched_labs.explorables.record [NAME ...]`.

Most come from a deterministic guest: a real kernel under QEMU, in which one instruction is one virtual
nanosecond, so that whoever records again gets the same numbers.  What is about microseconds of hardware
comes from this machine.
"""
