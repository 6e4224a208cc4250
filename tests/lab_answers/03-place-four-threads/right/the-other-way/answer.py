"""The CPUs swapped: their names say nothing."""


def place(pairs, cpus):
    if len(pairs) == 1:
        return dict(zip(pairs[0].tids, reversed(cpus), strict=True))
    return {tid: cpu for pair, cpu in zip(pairs, reversed(cpus), strict=True) for tid in pair.tids}
