"""The glossary as a script, so that a page can explain a word where it first stands."""

from __future__ import annotations

import json
import re

SCRIPT = "sched-labs-glossary.js"
_ENTRY = re.compile(r"^\*\*(?P<names>[^*]+?)\.?\*\*[^\n]*\n(?P<text>(?:[^\n]+\n?)+)", re.MULTILINE)


def terms(text: str) -> dict[str, str]:
    """Each name of each entry -> its first two sentences, without marks of emphasis."""
    found = {}
    for entry in _ENTRY.finditer(text):
        said = " ".join(entry["text"].split("\n")[:2]).strip()
        said = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", said)
        for name in entry["names"].split(", "):
            found[name.strip()] = re.sub(r"[*`]", "", said)
    return found


def script(text: str) -> str:
    """What a page loads; `sched-labs-terms.js` uses it."""
    return f"window.schedLabsGlossary = {json.dumps(terms(text), ensure_ascii=False, indent=0)};\n"
