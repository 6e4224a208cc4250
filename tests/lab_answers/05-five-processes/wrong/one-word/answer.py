def diagnose(threads):
    return "I/O-bound"
