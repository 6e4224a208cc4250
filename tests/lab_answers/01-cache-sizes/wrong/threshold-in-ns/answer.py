"""Where a step takes longer than 3 ns, and where it takes longer than 12."""


def cache_sizes(curve):
    found = []
    for threshold in (3, 12):
        within = curve[curve.ns_per_line <= threshold]
        if len(within):
            found.append(int(within.working_set_bytes.max()))
    return found
