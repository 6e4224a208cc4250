"""The work that arrives in a period: its mean, and three standard deviations of a compound Poisson number."""


def quota_us(service):
    requests = service["arrivals_per_s"] * service["period_us"] / 1e6
    return min(
        service["cpus"] * service["period_us"],
        round(service["work_us"] * (requests + 3 * requests**0.5)),
    )
