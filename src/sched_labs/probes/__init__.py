"""What watches a workload: one module per probe, and the privileged helper that some of them need.

runqlat     how long runnable threads wait, every wait counted by a BPF program (needs the privileged helper)
schedstat   how long threads waited in sum, from /proc, for everybody
"""
