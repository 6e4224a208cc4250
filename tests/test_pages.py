"""The built pages in a real browser: nothing from another host, no error, readable by all, on a phone too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nbformat
import pytest
from conftest import ROOT

from sched_labs.book.chapters import chapters, checkout

PAGE_LIMIT = 1_500_000  # bytes: the page, and every style, script, font and picture that it loads

FRONT = ("book/intro", "book/setup", "book/reading-figures", "book/labs", "book/instructors")
LABS = ("labs/01-cache-sizes/sheet", "labs/05-five-processes/sheet", "labs/01-cache-sizes/instructor")
NAMES = [*FRONT, *LABS, *(c.name for c in chapters(checkout(ROOT)))]


class Visit:
    """One page, opened: what it loaded, and what went wrong."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.errors: list[str] = []
        self.loaded: dict[str, int] = {}
        page.on("pageerror", lambda error: self.errors.append(f"error: {error}"))
        page.on(
            "console",
            lambda said: self.errors.append(said.text) if said.type in ("error", "warning") else None,
        )
        page.on("requestfailed", lambda request: self.errors.append(f"failed: {request.url}"))
        page.on("request", lambda request: self.loaded.setdefault(request.url, 0))
        page.on("response", self._weigh)

    def _weigh(self, response: Any) -> None:
        if response.status >= 400:
            self.errors.append(f"{response.status}: {response.url}")
        elif response.status not in (301, 302, 304):
            self.loaded[response.url] = len(response.body())

    def hosts(self) -> set[str]:
        """Hosts that the page asked for anything, besides the file system."""
        return {
            urlsplit(url).netloc
            for url in self.loaded
            if urlsplit(url).scheme not in ("file", "data", "blob")
        }


# The theme is chosen once the page is there, and buttons fade from one colour to the other.
SETTLED = """async () => {
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
    const fading = document.getAnimations().filter((each) => each instanceof CSSTransition);
    await Promise.allSettled(fading.map((each) => each.finished));
}"""


@pytest.fixture
def visit(browser: Any, real_book: Path) -> Iterator[Any]:
    """Open one page of the real book with a width and a colour scheme."""
    contexts = []

    def open_page(name: str, width: int = 1280, scheme: str = "light") -> Visit:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        seen = Visit(context.new_page())
        seen.page.goto((real_book / "html" / f"{name}.html").as_uri(), wait_until="load")
        seen.page.evaluate("document.fonts.ready")
        seen.page.evaluate(SETTLED)
        return seen

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("name", NAMES)
def test_a_page_needs_nothing_from_elsewhere_and_runs_without_an_error(visit: Any, name: str) -> None:
    seen = visit(name)
    seen.page.mouse.wheel(0, 100_000)  # what is loaded late is loaded now
    seen.page.wait_for_timeout(300)
    assert seen.errors == []
    assert seen.hosts() == set()
    assert sum(seen.loaded.values()) < PAGE_LIMIT, sorted(seen.loaded.items(), key=lambda item: -item[1])[:5]
    assert len(seen.loaded) > 5


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_accessible(visit: Any, name: str, scheme: str) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
    )
    seen = visit(name, scheme=scheme)
    assert seen.page.evaluate("document.documentElement.dataset.theme") == scheme
    results = axe.Axe().run(seen.page)
    assert results.violations_count == 0, results.generate_report()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", NAMES)
def test_a_page_fits_a_phone(visit: Any, name: str, scheme: str) -> None:
    page = visit(name, width=390, scheme=scheme).page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
    )
    results = axe.Axe().run(page)
    assert results.violations_count == 0, results.generate_report()


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("notebooks/")])
def test_figures_change_with_the_theme_and_say_what_they_show(visit: Any, name: str) -> None:
    light, dark = visit(name).page, visit(name, scheme="dark").page
    assert light.locator("figure").count() >= 1, "a chapter shows at least one figure"
    for figure in light.locator("figure").all():
        image = figure.locator('[role="img"]')
        assert image.count() == 1
        described = image.evaluate(
            "e => e.getAttribute('aria-label') || [...(e.getAttribute('aria-labelledby') || '').split(' ')]"
            ".map(id => id && document.getElementById(id)?.textContent).join(' ')"
        )
        assert len(described.strip()) > 20
        assert figure.locator("figcaption").inner_text().strip()
    ink = "e => getComputedStyle(e.querySelector('text')).fill"
    assert light.locator("figure svg").first.evaluate(ink) != dark.locator("figure svg").first.evaluate(ink)


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("notebooks/")])
def test_a_wide_table_scrolls_by_itself_and_by_keyboard(visit: Any, name: str) -> None:
    page = visit(name, width=390).page
    boxes = page.locator(".bd-article table, .bd-article pre").all()
    wide = [box for box in boxes if box.evaluate("e => e.scrollWidth > e.clientWidth + 1")]
    assert all(box.evaluate("e => e.tabIndex >= 0 || !!e.querySelector('[tabindex]')") for box in wide)


def test_every_cell_of_every_chapter_ran_to_its_end(real_book: Path) -> None:
    for chapter in chapters(checkout(ROOT)):
        notebook = nbformat.read(real_book / "measured" / f"{chapter.name}.ipynb", as_version=4)
        cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.strip()]
        assert cells and all(cell.execution_count for cell in cells)
        assert not [o for cell in cells for o in cell.outputs if o.output_type == "error"]


def test_pages_carry_no_name_of_this_machine_and_no_address_of_another(real_book: Path) -> None:
    import platform

    for page in (real_book / "html").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert str(Path.home()) + "/" not in text and str(ROOT) not in text, page
        if len(platform.node()) > 4:
            assert platform.node() not in text, page
        loads = re.findall(r'<(?:script|img|link|iframe)[^>]*(?:src|href)="(https?://[^"]*)"', text)
        assert loads == [], page


def test_the_colours_of_pages_are_those_of_figures() -> None:
    from sched_labs.figures import style

    text = (ROOT / "book/_static/sched-labs.css").read_text(encoding="utf-8")
    themes = re.findall(r"([^{}]*)\{([^{}]*--sl-direct: #[^{}]*)\}", text)
    assert len(themes) == 2
    for (_, body), theme in zip(themes, ("light", "dark"), strict=True):
        values = dict(re.findall(r"--sl-([a-z0-9]+): (#[0-9a-f]{6});", body))
        for name, colour in style.PALETTE.items():
            assert values[name] == getattr(colour, theme), (name, theme)
