"""The chapter *Cgroup throttling*: what a CPU limit does."""

# In verdicts, where other programs could have made the difference.
OTHERS = "Other programs may have had the CPUs:"
