"""Who is taken off a CPU most often."""

import re
from pathlib import Path


def find(service_tid, neighbours):
    def switches(pid):
        texts = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
        return sum(int(re.search(r"nonvoluntary_ctxt_switches:\s*(\d+)", text)[1]) for text in texts)

    return max(neighbours, key=switches)
