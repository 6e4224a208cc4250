"""The built pages in a real browser: nothing from another host, no error, readable by all, on a phone too."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import nbformat
import pytest
from conftest import BUILD_S, ROOT

from sched_labs.book import cut
from sched_labs.book.chapters import Chapter, chapters, checkout

pytestmark = pytest.mark.timeout(BUILD_S + 300)  # the first test of all builds the book

PAGE_LIMIT = 1_500_000  # bytes: the page, and every style, script, font and picture that it loads
HEIGHT_LIMIT, MINUTES_LIMIT = 12_000, 10  # CSS pixels at 1,280 across; before anything is unfolded


def experiments(chapter: Chapter) -> list[str]:
    """The pages of a chapter that ask for a prediction, by its text."""
    sections = re.split(r"^## ", chapter.source.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    asking = [part.partition("\n")[0] for part in sections if "guess.reveal(" in part]
    return [f"{chapter.name}/{cut.anchor(title.strip())}" for title in asking]


FRONT = ("book/intro", "book/setup", "book/reading-figures", "book/labs", "book/many-machines")
LABS = ("labs/01-cache-sizes/sheet", "labs/05-five-processes/sheet")
CHAPTERS = chapters(checkout(ROOT))
NAMES = [*FRONT, *LABS, *(name for c in CHAPTERS for name in (c.name, *experiments(c)))]


class Visit:
    """One page, opened, and scrolled through: `since` when, what it loaded, and what went wrong."""

    def __init__(self, page: Any) -> None:
        self.page, self.since = page, time.monotonic()
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


# Every page is opened on a laptop that is light and on a phone that is dark.  The other way round a page
# of each sort will do: only what stands around the text could look otherwise there, and all have the same.
LAPTOP, PHONE = 1280, 390
LATE_MS = 300  # for what is loaded once it is scrolled to
LOOKS = [
    (name, width, scheme)
    for name in NAMES
    for width, scheme in ((LAPTOP, "light"), (PHONE, "dark"), (LAPTOP, "dark"), (PHONE, "light"))
    if (width, scheme) in ((LAPTOP, "light"), (PHONE, "dark")) or name in (FRONT[0], LABS[0], NAMES[-1])
]


def looks(*widths: int, at: str = "") -> pytest.MarkDecorator:
    """For tests of `seen`: the pages whose names begin with `at`, in these widths."""
    chosen = [look for look in LOOKS if look[1] in widths and look[0].startswith(at)]
    ids = ["-".join(map(str, look)) for look in chosen]
    return pytest.mark.parametrize("seen", chosen, ids=ids, indirect=True, scope="module")


@pytest.fixture(scope="module")
def seen(request: pytest.FixtureRequest, browser: Any, real_book: Path) -> Iterator[Visit]:
    """A page of the real book, open in a width and a colour scheme."""
    name, width, scheme = request.param
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    visit = Visit(context.new_page())
    visit.page.goto((real_book / "html" / f"{name}.html").as_uri(), wait_until="load")
    visit.page.evaluate("document.fonts.ready")
    visit.page.evaluate(SETTLED)
    assert visit.page.evaluate("document.documentElement.dataset.theme") == scheme
    for end in ("document.body.scrollHeight", "0"):  # what is loaded late is loaded now
        visit.page.evaluate(f"scrollTo({{top: {end}, behavior: 'instant'}})")
        visit.page.evaluate(SETTLED)
    visit.since = time.monotonic()
    yield visit
    context.close()


@looks(PHONE)
def test_a_page_fits_a_phone(seen: Visit) -> None:
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= PHONE


@looks(LAPTOP, PHONE, at="notebooks/")
def test_figures_change_with_the_theme_and_say_what_they_show(seen: Visit) -> None:
    page = seen.page
    assert page.locator("figure").count() >= 1, "a chapter shows at least one figure"
    for figure in page.locator("figure").all():
        image = figure.locator('[role="img"]')
        assert image.count() == 1
        described = image.evaluate(
            "e => e.getAttribute('aria-label') || [...(e.getAttribute('aria-labelledby') || '').split(' ')]"
            ".map(id => id && document.getElementById(id)?.textContent).join(' ')"
        )
        assert len(described.strip()) > 20
        assert (figure.locator("figcaption").text_content() or "").strip()  # one that is folded, too
    scheme = page.evaluate("document.documentElement.dataset.theme")
    ink = {}
    for theme in ("light", "dark", scheme):  # as the page's own button does, and back
        page.evaluate("theme => { document.documentElement.dataset.theme = theme }", theme)
        ink[theme] = page.locator("figure svg text").first.evaluate("e => getComputedStyle(e).fill")
    assert ink["light"] != ink["dark"]


@looks(PHONE, at="notebooks/")
def test_a_wide_table_scrolls_by_itself_and_by_keyboard(seen: Visit) -> None:
    assert seen.page.locator(".bd-article table, .bd-article pre").evaluate_all(
        "boxes => boxes.filter(e => e.scrollWidth > e.clientWidth + 1)"
        ".every(e => e.tabIndex >= 0 || !!e.querySelector('[tabindex]'))"
    )


# What keys should reach: all that takes the focus and is to be seen (of a group of choices one has it).
REACHABLE = """() => {
    const all = [...document.querySelectorAll("a[href], button, input, select, summary, [tabindex]")];
    window.missed = new Set(all.filter((e) => e.tabIndex >= 0 && !e.disabled && e.type !== "radio"
        && e.checkVisibility({ visibilityProperty: true })));
    window.unmarked = [];
    return window.missed.size;
}"""
# Returns whether there is more to come: after the last the browser's own window has the focus.
REACHED = """() => {
    const at = document.activeElement;
    if (at === document.body) return window.missed.size > 0;
    const looks = [at, ...at.children].map((e) => getComputedStyle(e));  // the theme marks a toggle's arrow
    if (looks.every(({ outlineStyle, boxShadow }) => outlineStyle === "none" && boxShadow === "none"))
        window.unmarked.push(at.outerHTML.slice(0, 200));
    window.missed.delete(at);
    return true;
}"""


@looks(LAPTOP)
def test_keys_reach_all_of_a_page_and_one_sees_where_they_are(seen: Visit) -> None:
    page = seen.page
    for _ in range(page.evaluate(REACHABLE) + 20):
        page.keyboard.press("Tab")
        if not page.evaluate(REACHED):
            break
    assert page.evaluate("[...window.missed].map((e) => e.outerHTML.slice(0, 200))") == []
    assert page.evaluate("window.unmarked") == []
    page.evaluate("document.activeElement.blur()")


@looks(LAPTOP, PHONE)
def test_a_page_needs_nothing_from_elsewhere_and_runs_without_an_error(seen: Visit) -> None:
    """After the others, so that what goes wrong late has: but axe, which tries to read what it may not."""
    seen.page.wait_for_timeout(max(0, LATE_MS - 1000 * (time.monotonic() - seen.since)))
    assert seen.errors == []
    assert seen.hosts() == set()
    assert sum(seen.loaded.values()) < PAGE_LIMIT, sorted(seen.loaded.items(), key=lambda item: -item[1])[:5]
    assert len(seen.loaded) > 5


@looks(LAPTOP, PHONE)
def test_a_page_is_accessible(seen: Visit) -> None:
    axe = pytest.importorskip(
        "axe_playwright_python.sync_playwright", reason="axe-playwright-python is not installed"
    )
    seen.page.evaluate(SETTLED)  # the test before changed the theme, and back
    # What passes is not written down node by node, which a chapter's figures have thousands of.
    results = axe.Axe().run(seen.page, options={"resultTypes": ["violations"]})
    assert results.violations_count == 0, results.generate_report()


# Before a page's own scripts run: a declined guess for each of its questions.
UNCOVER = """document.addEventListener("readystatechange", () => {
    if (document.readyState !== "interactive") return;
    for (const asked of document.querySelectorAll(".sl-question")) {
        const { id } = JSON.parse(asked.dataset.question);
        localStorage.setItem(`sched-labs.prediction.${id}`, '{"declined": true}');
    }
}, true);"""


def test_a_chapters_numbers_are_one_sheet_of_paper(browser: Any, real_book: Path) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    page = browser.new_page(viewport={"width": LAPTOP, "height": 900}, color_scheme="dark")
    page.goto((real_book / "html" / f"{CHAPTERS[0].name}.html").as_uri())
    page.get_by_role("button", name="My sheet").click()
    sheet = page.get_by_role("dialog")
    assert sheet.get_by_text("No guess yet").count() >= 5, "what is covered on its page is covered here"
    assert axe.Axe().run(page, context=".sl-sheet").violations_count == 0
    assert len(re.findall(rb"/Type\s*/Page\b", page.pdf())) == 1
    with page.expect_download() as saved:
        sheet.get_by_role("button", name="Save as SVG").click()
    assert saved.value.suggested_filename == f"sheet-{CHAPTERS[0].short}.svg"
    assert "No guess yet" in saved.value.path().read_text(encoding="utf-8")
    page.keyboard.press("Escape")
    assert not sheet.is_visible()
    page.close()


def test_a_page_is_read_in_ten_minutes(browser: Any, real_book: Path) -> None:
    """With every figure uncovered and nothing unfolded."""
    page = browser.new_page(viewport={"width": LAPTOP, "height": 900})
    page.add_init_script(UNCOVER)
    long = []
    for file in sorted((real_book / "html" / "notebooks").rglob("*.html")):
        page.goto(file.as_uri())
        page.evaluate(SETTLED)
        assert page.locator(".sl-lid").count() == 0, file
        height = page.evaluate("document.documentElement.scrollHeight")
        words = page.evaluate(
            "[...document.querySelectorAll('.bd-article :is(p, li, td)')]"
            ".filter(e => e.checkVisibility() && !e.closest('table table, figure'))"
            ".map(e => e.innerText).join(' ').split(/\\s+/).length"
        )
        if height > HEIGHT_LIMIT or words > MINUTES_LIMIT * cut.WORDS_PER_MINUTE:
            long.append((file.stem, height, words))
    page.close()
    assert long == []


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
    from sched_labs.draw import style

    text = (ROOT / "book/_static/sched-labs.css").read_text(encoding="utf-8")
    themes = re.findall(r"([^{}]*)\{([^{}]*--sl-direct: #[^{}]*)\}", text)
    assert len(themes) == 2
    for (_, body), theme in zip(themes, ("light", "dark"), strict=True):
        values = dict(re.findall(r"--sl-([a-z0-9]+): (#[0-9a-f]{6});", body))
        for name, colour in style.PALETTE.items():
            assert values[name] == getattr(colour, theme), (name, theme)
