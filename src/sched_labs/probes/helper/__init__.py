"""The privileged programs of sched-labs: `sched-labs-probe` watches, `sched-labs-lend` lends control groups.

SECURITY.md says what they may be asked and why they can be trusted.  `scripts/provision.sh` installs this
folder as root's; the system's Python (3.9 or newer) runs it, with nothing but its own library and BCC.

protocol    how both begin, whom they serve, and how they talk
lending     sched-labs-lend
watching    sched-labs-probe: the request and the conversation
programs    the BPF programs: planned, compiled once, kept, loaded
btf         where this kernel has what they read
counts      what they have counted
"""
