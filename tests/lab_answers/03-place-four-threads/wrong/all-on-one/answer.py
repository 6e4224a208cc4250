def place(pairs, cpus):
    return {tid: cpus[0] for pair in pairs for tid in pair.tids}
