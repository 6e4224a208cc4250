"""Your answer: what does this process do?"""

import pandas as pd


def diagnose(threads: pd.DataFrame) -> str:
    """One of the sheet's words.  This one is the rule of thumb that you read everywhere."""
    leader = threads[threads.leader].iloc[0]
    return "CPU-contended" if leader.involuntary_per_s > leader.voluntary_per_s else "I/O-bound"
