"""Where workloads run: on which CPUs, under which policy, with which settings of the kernel."""
