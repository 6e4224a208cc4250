"""Take out of each page what would fetch from another host.

Jupyter Book always adds sphinx-thebe, which talks to Binder.
Its settings even stand on a page twice, which is an error in every browser.
"""

from __future__ import annotations

from typing import Any

from sphinx.application import Sphinx


def _is_thebe(asset: Any) -> bool:
    inline = (getattr(asset, "attributes", None) or {}).get("body") or ""
    return "thebe" in str(getattr(asset, "filename", asset)) or "THEBE_JS_URL" in inline


def _strip(app: Sphinx, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    for kind in ("script_files", "css_files"):
        context[kind] = [asset for asset in context[kind] if not _is_thebe(asset)]


def setup(app: Sphinx) -> dict[str, bool]:
    """Run after every extension that adds scripts to a page."""
    app.connect("html-page-context", _strip, priority=990)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
