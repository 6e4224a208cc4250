"""The rule of thumb, of all threads together."""


def diagnose(threads):
    wanted = threads.voluntary_per_s.sum() >= threads.involuntary_per_s.sum()
    return "I/O-bound" if wanted else "CPU-contended"
