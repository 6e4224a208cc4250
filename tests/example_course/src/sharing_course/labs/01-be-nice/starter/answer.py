"""Your answer: how nice must it be?"""


def nice_for(percent: float) -> int:
    """The nice value at which a thread gets this part of a CPU, beside one at nice 0."""
    return 0
