"""A step of nice divides a weight by 1.25: of all twenty values, the nearest."""


def nice_for(percent: float) -> int:
    """The nice value at which a thread gets this part of a CPU, beside one at nice 0."""
    return min(range(20), key=lambda nice: abs(100 / (1 + 1.25**nice) - percent))
