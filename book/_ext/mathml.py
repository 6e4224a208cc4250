"""Mathematics as MathML, written into the page when the book is built.

Sphinx's own choice, MathJax, is two megabytes of script from another host. Every browser of today draws
MathML itself, screen readers read it, and docutils (which Sphinx is made of) converts TeX to it: nothing to
fetch, nothing to run.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

logger = logging.getLogger(__name__)


def _convert(translator: Any, node: nodes.math | nodes.math_block, *, block: bool) -> str:
    """Return MathML; TeX that docutils does not know is a warning (so the build fails) and stays readable."""
    tex = node.astext()
    try:
        return tex2mathml(tex, as_block=block)
    except MathError as error:
        logger.warning("cannot turn this TeX into MathML: %s (%s)", tex, error, location=node)
        return f"<code>{translator.encode(tex)}</code>"


def inline(translator: Any, node: nodes.math) -> None:
    """Write inline mathematics."""
    translator.body.append(_convert(translator, node, block=False))
    raise nodes.SkipNode


def display(translator: Any, node: nodes.math_block) -> None:
    """Write a displayed formula, with its number where it has one."""
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node["number"]:
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})</span>')
    translator.body.append(_convert(translator, node, block=True))
    translator.body.append("</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer; `html_math_renderer: mathml` chooses it."""
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
