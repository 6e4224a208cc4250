"""From a matplotlib figure to one inline SVG that belongs on any page.

matplotlib writes fixed colours, a fixed size, ids that collide and a font list per word.  Here its output is
parsed, checked and rewritten: colours become CSS variables with the light value as fallback, ids get the
figure's own prefix, the size becomes a viewBox, text stays text in the page's font, numbers lose the decimals
that nobody sees, and a title and a description make it readable without eyes.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections import Counter
from html import escape
from xml.etree import ElementTree

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Drawing

from ..core.errors import SchedLabError
from . import style

_SVG = "http://www.w3.org/2000/svg"
_XLINK = "{http://www.w3.org/1999/xlink}href"
_FONTS = 'var(--sl-font,system-ui,-apple-system,"Segoe UI",Roboto,"Liberation Sans","DejaVu Sans",sans-serif)'
_HEX = re.compile(r"#[0-9a-fA-F]{6}\b")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_NAMES = {shade.light: name for name, shade in style.PALETTE.items()}
_drawn: Counter[str] = Counter()


def source(drawing: Drawing) -> bytes:
    """matplotlib's own SVG, without date or maker.  Call it inside `style.drawing()`."""
    buffer = io.BytesIO()
    about = {"Date": None, "Creator": None, "Format": None, "Type": None}
    FigureCanvasSVG(drawing).print_svg(buffer, metadata=about)  # savefig() draws it all once before that
    return buffer.getvalue()


def inline(drawing: Drawing, title: str, description: str) -> str:
    """One `<svg>` element for a page where it may stand beside others.  For use inside `style.drawing()`."""
    root = ElementTree.fromstring(source(drawing))
    _drop_metadata(root)
    text = " ".join((title, description))
    prefix = _prefix(ElementTree.tostring(root) + text.encode())
    width, height = _size(root)
    _rename(root, prefix)
    for element in root.iter():
        _restyle(element)
    _shorten(root)
    root.attrib.clear()
    root.attrib.update(
        {
            "xmlns": _SVG,
            "viewBox": f"0 0 {width:g} {height:g}",
            "role": "img",
            "aria-labelledby": f"{prefix}-title {prefix}-desc",
            "class": "sl-svg",
        }
    )
    for place, (tag, content) in enumerate((("title", title), ("desc", description))):
        element = ElementTree.Element(tag, {"id": f"{prefix}-{tag}"})
        element.text = content
        root.insert(place, element)
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=True)


def page_figure(svg: str, caption: str, provenance: str, width: float) -> str:
    """The `<figure>` around an inline SVG: its colours in light, dark and print, caption and provenance."""
    return (
        f'<figure class="sl-figure"><style>{stylesheet()}</style>'
        f'<div class="sl-plate" style="max-width:{width * 1.45 / 16:.4g}rem">{svg}</div>'
        f'<figcaption class="sl-caption">{escape(caption)}{_whence(provenance)}</figcaption></figure>'
    )


def _whence(provenance: str) -> str:
    """One line that says where the numbers come from, and opens to all of it."""
    mark = re.search(r"(?:^|[.)] )(Flagged|Recorded elsewhere): ", provenance)
    said = f", {mark[1].lower()}" if mark else ""
    first = provenance.partition(" · measured ")[0].partition(". ")[0] or "Where this comes from"
    return (
        f'<details class="sl-whence"><summary>{escape(first)}{said}</summary>'
        f"<p>{escape(provenance)}</p></details>"
    )


def _prefix(content: bytes) -> str:
    """The same for the same figure in every run of a notebook, another when it is shown a second time."""
    digest = hashlib.sha256(content).hexdigest()[:8]
    _drawn[digest] += 1
    return f"sl-{digest}" if _drawn[digest] == 1 else f"sl-{digest}-{_drawn[digest]}"


def _size(root: ElementTree.Element) -> tuple[float, float]:
    _, _, width, height = (float(part) for part in root.attrib["viewBox"].split())
    return round(width, 1), round(height, 1)


def _drop_metadata(root: ElementTree.Element) -> None:
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        if element.text and not element.text.strip():
            element.text = None
        if element.tail and not element.tail.strip():
            element.tail = None
    for parent in list(root.iter()):
        for child in list(parent):
            # matplotlib's style sheet would apply to the whole page; ours says the same inside the figure.
            if child.tag in ("metadata", "style") or (child.tag == "defs" and not len(child)):
                parent.remove(child)
    for child in [c for c in root if c.tag == "defs" and not len(c)]:
        root.remove(child)


def _rename(root: ElementTree.Element, prefix: str) -> None:
    """Ids that nothing refers to go; the others are numbered under the figure's prefix."""
    wanted: dict[str, str] = {}

    def renamed(old: str) -> str:
        return wanted.setdefault(old, f"{prefix}-{len(wanted)}")

    for element in root.iter():
        link = element.attrib.pop(_XLINK, None)
        if link is not None:
            element.attrib["href"] = f"#{renamed(link.removeprefix('#'))}"
        for name, value in element.attrib.items():
            if "url(#" in value:
                element.attrib[name] = _REFERENCE.sub(lambda m: f"url(#{renamed(m[1])})", value)
    for element in root.iter():
        old = element.attrib.pop("id", None)
        if old in wanted:
            element.attrib["id"] = wanted[old]


def _restyle(element: ElementTree.Element) -> None:
    for name in ("d", "x", "y", "width", "height", "points", "transform"):
        if name in element.attrib:
            value = _NUMBER.sub(lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), element.attrib[name])
            element.attrib[name] = " ".join(value.split())
    if re.fullmatch(r"rotate\(-?0 [^)]*\)", element.attrib.get("transform", "")):
        del element.attrib["transform"]
    if "fill" in element.attrib:  # the ground of a hatch has its colour as an attribute
        element.attrib["style"] = f"fill:{element.attrib.pop('fill')};{element.attrib.get('style', '')}"
    if "style" in element.attrib:
        kept = [
            rule.strip()
            for rule in element.attrib["style"].split(";")
            # The page's font is the figure's; matplotlib repeats its own list for every word.
            if rule.strip() and not rule.strip().startswith("font-family")
        ]
        element.attrib["style"] = ";".join(_HEX.sub(_variable, re.sub(r":\s+", ":", rule)) for rule in kept)


def _shorten(root: ElementTree.Element) -> None:
    """Say once what neighbours have in common: hundreds of bars and points differ in their place only."""
    for parent in root.iter():
        shorter: list[ElementTree.Element] = []
        for child in list(parent):
            while (
                child.tag == "g" and not child.attrib and len(child) == 1 and child[0].tag in ("path", "use")
            ):
                child = child[0]  # a group of one, without a word about it
            if child.tag == "path" and "d" not in child.attrib:
                continue  # a path without a point, as of an axis that lost all its room: it draws nothing
            before = shorter[-1] if shorter else None
            if before is None or not _alike(before, child):
                shorter.append(child)
            elif child.tag == "path":
                before.attrib["d"] += " " + child.attrib["d"]
            elif before.tag == "g":
                before.append(_plain(child))
            else:
                group = ElementTree.Element("g", {"style": child.attrib["style"]})
                group.extend([_plain(before), _plain(child)])
                shorter[-1] = group
        parent[:] = shorter


def _alike(before: ElementTree.Element, child: ElementTree.Element) -> bool:
    """Whether the second looks as the first does, and both together look the same as one after the other."""
    style = child.attrib.get("style", "")
    if not style or before.attrib.get("style") != style:
        return False
    if child.tag == "use":
        return before.tag == "use" or (before.tag == "g" and set(before.attrib) == {"style"})
    others = [{k: v for k, v in one.attrib.items() if k != "d"} for one in (before, child)]
    # What shines through would not add up within one path.
    return child.tag == before.tag == "path" and others[0] == others[1] and "opacity" not in style


def _plain(element: ElementTree.Element) -> ElementTree.Element:
    del element.attrib["style"]
    return element


def _variable(match: re.Match[str]) -> str:
    value = match[0].lower()
    if value not in _NAMES:
        raise SchedLabError(
            f"A figure uses the colour {value}, which has no meaning in the book.",
            "Draw with style.colour(name); style.PALETTE lists the names.",
        )
    return f"var(--sl-{_NAMES[value]},{value})"


def _variables(theme: str, host_background: str = "") -> str:
    values = {name: getattr(shade, theme) for name, shade in style.PALETTE.items()}
    if host_background:
        values[style.PAPER] = f"var({host_background},{values[style.PAPER]})"
    return ";".join(f"--sl-{name}:{value}" for name, value in values.items())


def stylesheet() -> str:
    """The figure's own style sheet: it works on a bare page, in the book (pydata theme) and in JupyterLab.

    On a bare page the figure follows the system and brings its own background; a page with a theme decides
    both.  Print is always light.
    """
    themes = "".join(
        f"{selector} .sl-figure{{{_variables(theme, background)}}}"
        for selector, theme, background in (
            ('html[data-theme="light"]', "light", "--pst-color-background"),
            ('html[data-theme="dark"]', "dark", "--pst-color-background"),
            ('[data-jp-theme-light="true"]', "light", "--jp-layout-color0"),
            ('[data-jp-theme-light="false"]', "dark", "--jp-layout-color0"),
        )
    )
    return "".join(
        (
            f".sl-figure{{{_variables('light')};margin:1.2em 0;padding:0;color:var(--sl-ink);"
            "background:var(--sl-paper);break-inside:avoid}",
            f"@media screen and (prefers-color-scheme:dark){{.sl-figure{{{_variables('dark')}}}}}",
            f"@media screen{{{themes}}}",
            f".sl-svg{{display:block;width:100%;height:auto;max-width:100%;font-family:{_FONTS};"
            "stroke-linejoin:round;stroke-linecap:butt;overflow:visible}",
            # Text keeps a rim of the page's colour, so that it reads where a line passes behind it.
            ".sl-svg text{paint-order:stroke;stroke:var(--sl-paper);stroke-width:3px;stroke-linejoin:round}",
            # Not the text on a mark, which has the page's colour itself and would run together with its rim.
            '.sl-svg text[style*="fill:var(--sl-paper"]{stroke:none}',
            # The book's theme puts a light plate behind rich output in the dark; a figure needs none.
            "html[data-theme] .bd-content div.cell_output .text_html.text_html:has(>.sl-figure)"
            "{background:none;padding:0;color:inherit}",
            ".sl-figure figcaption.sl-caption{color:var(--sl-ink);margin:.5em 0 0;text-align:start;"
            "max-width:46em;line-height:1.45}",
            ".sl-figure figcaption.sl-caption small{color:var(--sl-neutral)}",
        )
    )
