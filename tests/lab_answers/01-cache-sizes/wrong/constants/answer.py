def cache_sizes(curve):
    return [45 << 10, 1 << 20, 23 << 20]
