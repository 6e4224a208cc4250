"""How long a stint lasts comes first; then how many of the switches were wanted."""


def diagnose(threads):
    leader, others = threads[threads.leader], threads[~threads.leader]
    if len(others) and leader.cpu_share.sum() < 0.01 * others.cpu_share.sum():
        return "pool with an idle leader"
    voluntary, involuntary = threads.voluntary_per_s.sum(), threads.involuntary_per_s.sum()
    stint_us = 1e6 * threads.cpu_share.sum() / (voluntary + involuntary)
    if stint_us < 300:
        return "yielding" if involuntary > 4 * voluntary else "I/O-bound"
    if voluntary < 4:
        return "CPU-contended"
    return "I/O-bound and CPU-contended"
