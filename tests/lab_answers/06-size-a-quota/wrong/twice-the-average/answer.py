def quota_us(service):
    return round(2 * service["arrivals_per_s"] * service["work_us"] * service["period_us"] / 1e6)
