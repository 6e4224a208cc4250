"""Who uses a whole CPU wants one; who does not waits for a partner."""


def place(pairs, cpus):
    placed = {}
    for number, pair in enumerate(pairs):
        alone = pair.cpu_share > 0.75
        placed |= {tid: cpus[(side if alone else number) % 2] for side, tid in enumerate(pair.tids)}
    return placed
