"""What a worker is sent, as text: which machine it is on, and what sched-labs there can answer.

It runs where sched-labs may be missing or older, so it imports nothing of it until it knows.  A question is
JSON text, and so is every answer: nothing is unpickled that a worker made of a result.
"""

from __future__ import annotations


def answer(question: str) -> str:
    """The answer to {"do": "hello"}, or to what `fleet.onsite` knows; an error is an answer, too."""
    import hashlib
    import json
    import platform
    from pathlib import Path
    from typing import Any

    def mark(place: str) -> str:
        """A machine's identity for this purpose alone: neither a name nor what other programs know it by."""
        try:
            known = Path(place).read_text(encoding="ascii").strip()
        except (OSError, ValueError):
            return ""
        return hashlib.sha256(f"sched-labs fleet {known}".encode()).hexdigest()[:16] if known else ""

    try:
        from sched_labs.core.version import __version__ as version
    except Exception:  # not installed, or broken
        version = ""
    said: dict[str, Any] = {
        "version": version,
        "python": platform.python_version(),
        "boot": mark("/proc/sys/kernel/random/boot_id"),
        "machine": mark("/etc/machine-id"),
    }
    asked = json.loads(question)
    if asked["do"] != "hello":
        if version != asked["version"]:
            said["refused"] = f"it has sched-labs {version or '(none)'}, and was asked by {asked['version']}"
            return json.dumps(said)
        from sched_labs.fleet import onsite

        said["answer"] = onsite.answer(asked)
    return json.dumps(said)
