"""Your answer: how much quota does it need?"""


def quota_us(service: dict) -> int:
    """Quota in µs for each period.  This one is the average, and a fifth more to be safe."""
    average = service["arrivals_per_s"] * service["work_us"] * service["period_us"] / 1e6
    return round(1.2 * average)
