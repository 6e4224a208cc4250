"""What libbpf, the verifier and the kernel say of a scheduler, as sentences for its author."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .errors import SchedulerError

# What the verifier says, what it means, what to do.
_MEANINGS = (
    (
        r"infinite loop detected|program is too large|too complex|back-edge",
        "The verifier, which follows every path through the program, finds no end to this loop.",
        "Give the loop a bound that is a constant.",
    ),
    (
        r"invalid access to map value|unbounded min value|min value is negative|max value is outside|"
        r"unbounded memory access|outside of the allowed memory range",
        "An index may lie outside its array here.",
        "Check it against the array's size, or take it modulo that size, as a u32.",
    ),
    (
        r"sleepable",
        "This function of the kernel may sleep, and this callback may not.",
        "Make queues in an init that is declared with BPF_STRUCT_OPS_SLEEPABLE.",
    ),
    (
        # Of a refused store it may say no more than what was stored.
        r"only read is supported|^\d+: \(\w\w\) \*\(u\d+ \*\)\(r\d+ .*\) =",
        "This field is the kernel's own; a scheduler may read it.",
        "Of a task, p->scx.slice and p->scx.dsq_vtime may be written.",
    ),
    (
        r"possibly NULL|_or_null|invalid mem access|NULL pointer",
        "This pointer may be no pointer here.",
        "Compare it with 0 before you follow it.",
    ),
    (
        r"calling kernel function .* is not allowed",
        "This callback may not call that function of the kernel.",
        "Queues are filled in select_cpu, enqueue and dispatch, and emptied in dispatch.",
    ),
    (
        r"arg#\d+|type=|expected",
        "This is not what the function or callback takes.",
        "Compare the arguments with those that scheduler.h lists.",
    ),
)


def refused(said: Sequence[str], name: str, kernel: str, source: str = "") -> SchedulerError:
    """Why a scheduler of that source was not loaded."""
    text = "\n".join(said)
    member = re.search(r"Cannot find member (\w+) in kernel BTF", text)
    if member:
        return SchedulerError(
            f"{name} fills in .{member[1]}, and struct sched_ext_ops of kernel {kernel} has no such member.",
            "Leave it out, or take another kernel.",
        )
    unknown = re.search(r"extern \(func ksym\) '(\w+)': not found", text)
    if unknown:
        return SchedulerError(
            f"{name} calls {unknown[1]}, and kernel {kernel} has no such function for schedulers.",
            "Call one of those in scheduler.h, or take another kernel.",
        )
    # In 7.1 and 7.2, where pahole left out tags from which resolve_btfids makes a second form of it.
    other = re.search(
        r"extern \(func ksym\) '(\w+)': func_proto .* incompatible|find function (\w+)_impl in BTF", text
    )
    if other:
        return SchedulerError(
            f"{name} calls {other[1] or other[2]}, which kernel {kernel} describes in another form than "
            "scheduler.h: this build of the kernel does not let a scheduler call it.",
            "Take kernel 6.18 or 7.3, or do without it: SCX_DSQ_GLOBAL is a queue that need not be made.",
        )
    log = re.search(r"BEGIN PROG LOAD LOG --\n(.*?)-- END PROG LOAD LOG", text, re.DOTALL)
    if log:
        return _verifier(log[1], name, source)
    kernel_said = [line for line in text.splitlines() if line.startswith("sched_ext")]
    if kernel_said:
        return given_up(kernel_said, name)
    last = text.strip().splitlines()[-1:] or ["it said nothing"]
    return SchedulerError(
        f"{name} cannot be loaded into kernel {kernel}: {last[0]}", "Compare it with an example."
    )


def _verifier(log: str, name: str, source: str) -> SchedulerError:
    """The last thing that the verifier said, the line of the source that it was at, and what that means."""
    # What follows an error is how the verifier got there.
    told = (line for line in log.splitlines() if line.strip())
    lines = [line for line in told if not line.startswith(("processed ", "cur state:", "old state:"))]
    wrong = lines[-1].strip() if lines else "it gives no reason"
    where = ""
    for number in re.findall(r"^; .*@ (?:.*/)?scheduler\.bpf\.c:(\d+)", log, re.MULTILINE)[-1:]:
        code = source.splitlines()[int(number) - 1 : int(number)]
        where = f"{name}:{number}: {code[0].strip() if code else ''}\n"
    for pattern, meaning, remedy in _MEANINGS:
        if re.search(pattern, wrong):
            return SchedulerError(
                f"The verifier refuses {name}.\n{where}{meaning}\nIn its words: {wrong}", remedy
            )
    return SchedulerError(f"The verifier refuses {name}.\n{where}In its words: {wrong}", "Mend that line.")


def given_up(said: Sequence[str], name: str) -> SchedulerError:
    """Why the kernel took the machine back from a scheduler that ran."""
    text = "\n".join(said)
    reason = re.search(r'BPF scheduler "[^"]*" disabled \((.*?)\)$', text, re.MULTILINE)
    message = re.search(
        r"^sched_ext: (?:[\w.]+): (.*)$", text[reason.end() :] if reason else text, re.MULTILINE
    )
    detail = message[1] if message else ""
    stalled = re.search(r"(\S+)\[\d+\] failed to run for ([\d.]+)s", detail)
    if stalled:
        return SchedulerError(
            f"{name} left {stalled[1]} runnable for {float(stalled[2]):.1f} s without giving it a CPU, and "
            "the kernel took the machine back.",
            "Does enqueue put every thread into a queue, and does dispatch look into that queue?",
        )
    if "failed to check in" in detail:
        return SchedulerError(
            f"{name} gave no CPU to the kernel's own threads either, not even to the watchdog, and the "
            "kernel took the machine back.",
            "Does dispatch look into the queue that enqueue fills?",
        )
    queue = re.search(r"non-existent DSQ 0x([0-9a-f]+)", detail)
    if queue:
        return SchedulerError(
            f"{name} puts a thread into queue {int(queue[1], 16)}, which it has not made, and the kernel "
            "took the machine back.",
            "Make it in init, with scx_bpf_create_dsq().",
        )
    if "called from an operation only allowing" in detail:
        return SchedulerError(
            f"{name} calls a function of the kernel where it may not, and the kernel took the machine back: "
            f"{detail}.",
            "Queues are filled in select_cpu, enqueue and dispatch, and emptied in dispatch.",
        )
    why = reason[1] if reason else "no reason given"
    return SchedulerError(
        f"The kernel took the machine back from {name}: {why}{f': {detail}' if detail else ''}.",
        "The words after the colon are the kernel's, or those of your scx_bpf_error().",
    )
