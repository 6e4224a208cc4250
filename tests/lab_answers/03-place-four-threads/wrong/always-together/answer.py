"""A pair belongs together."""


def place(pairs, cpus):
    return {tid: cpus[number % 2] for number, pair in enumerate(pairs) for tid in pair.tids}
