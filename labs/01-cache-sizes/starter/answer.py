"""Your answer: where do the caches end?"""

import pandas as pd


def cache_sizes(curve: pd.DataFrame) -> list[int]:
    """Sizes in bytes, smallest first.  curve: working_set_bytes, ns_per_line; smallest set first."""
    return []
