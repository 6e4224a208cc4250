"""Try quotas in the simulation until the tail is as it must be, and then add a quarter."""

from sched_labs.limits import bandwidth


def quota_us(service: dict) -> int:
    """Quota in µs for each period."""
    most = service["cpus"] * service["period_us"]

    def tail_us(quota: int) -> float:
        return bandwidth.simulate(
            quota,
            service["period_us"],
            threads=service["threads"],
            cpus=service["cpus"],
            arrivals_per_s=service["arrivals_per_s"],
            work_us=service["work_us"],
            duration_s=40,
            seed=7,
        ).quantile_us(0.99)

    allowed = 1.7 * tail_us(most)
    low, high = most // 100, most
    while high - low > most // 100:
        middle = (low + high) // 2
        if tail_us(middle) <= allowed:
            high = middle
        else:
            low = middle
    return min(most, round(1.25 * high))  # another hour brings other requests
