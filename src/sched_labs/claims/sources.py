"""Where the sentences come from: the texts that the bibliography lists, and links to them."""

from __future__ import annotations

import re
from html import escape

# As claims name them, and where book/bibliography.md has them.
TEXTS = {
    "a web course on context switches": "switch-course",
    "an article on a slow blocking queue": "queue-article",
    "a web course on scheduler latency": "latency-course",
    "an article on the costs of threads": "thread-article",
    "a collection of switch benchmarks": "switch-benchmarks",
}
PAGE = "../book/bibliography.html"  # from a chapter, and from another page of the book


def linked(source: str) -> str:
    """A claim's source as HTML, with the names of the texts as links to the bibliography."""
    names = "|".join(re.escape(escape(name)) for name in TEXTS)
    anchors = {escape(name): anchor for name, anchor in TEXTS.items()}
    return re.sub(names, lambda found: f'<a href="{PAGE}#{anchors[found[0]]}">{found[0]}</a>', escape(source))
