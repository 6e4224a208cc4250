def quota_us(service):
    return service["cpus"] * service["period_us"]
