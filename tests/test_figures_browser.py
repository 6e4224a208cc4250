"""Figures in a real browser: their colours on light and dark pages, in JupyterLab and on paper."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from test_figures import made_histogram, made_matrix, made_warmup

from sched_labs import draw as figures
from sched_labs.draw import style

# What the figure sees of its surroundings: attributes of <html>, of <body>, the system's wish, the medium.
PLACES = {
    "bare page, light system": ("", "", "light", "screen", "light"),
    "bare page, dark system": ("", "", "dark", "screen", "dark"),
    "book, light, dark system": ('data-theme="light"', "", "dark", "screen", "light"),
    "book, dark, light system": ('data-theme="dark"', "", "light", "screen", "dark"),
    "JupyterLab, light, dark system": ("", 'data-jp-theme-light="true"', "dark", "screen", "light"),
    "JupyterLab, dark, light system": ("", 'data-jp-theme-light="false"', "light", "screen", "dark"),
    "dark book on paper": ('data-theme="dark"', "", "dark", "print", "light"),
}


@functools.cache
def drawn() -> str:
    return "".join(figures.draw(make())._repr_html_() for make in (made_warmup, made_matrix, made_histogram))


def page_of(browser: Any, root: str, body: str, width: int = 1200, **context: Any) -> Any:
    page = browser.new_context(viewport={"width": width, "height": 900}, **context).new_page()
    page.set_content(
        f'<!doctype html><html lang="en" {root}><head><title>Figures</title></head>'
        f"<body {body}><main><h1>Figures</h1>{drawn()}</main></body></html>"
    )
    return page


def rgb(value: str) -> str:
    return f"rgb({', '.join(str(int(value[i : i + 2], 16)) for i in (1, 3, 5))})"


@pytest.mark.parametrize("place", PLACES)
def test_colours_follow_the_page(browser: Any, place: str) -> None:
    root, body, system, medium, theme = PLACES[place]
    page = page_of(browser, root, body, color_scheme=system)
    page.emulate_media(media=medium, color_scheme=system)
    for name, kind in ((style.WARMUP, "stroke"), (style.DIRECT, "stroke"), (style.PREEMPTED, "fill")):
        seen = page.evaluate(
            "([name, kind]) => [...document.querySelectorAll(`[style*='--sl-${name},']`)]"
            ".map(e => getComputedStyle(e)[kind])",
            [name, kind],
        )
        assert rgb(getattr(style.PALETTE[name], theme)) in seen
        other = "dark" if theme == "light" else "light"
        assert rgb(getattr(style.PALETTE[name], other)) not in seen
    caption = page.evaluate("getComputedStyle(document.querySelector('.sl-caption')).color")
    assert caption == rgb(getattr(style.PALETTE[style.INK], theme))
    page.context.close()


@pytest.mark.parametrize("width", [390, 1200])
def test_figures_fit_the_page_and_pass_axe(browser: Any, width: int) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe is not installed")
    page = page_of(browser, "", "", width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for box in page.evaluate(
        "[...document.querySelectorAll('.sl-svg')].map(e => e.getBoundingClientRect().toJSON())"
    ):
        assert box["left"] >= 0 and box["right"] <= width and box["height"] > 100
    assert axe.Axe().run(page).response["violations"] == []
    page.context.close()


@pytest.mark.parametrize("width", [390, 1200])
def test_no_text_covers_another_in_the_fonts_of_the_page(browser: Any, width: int) -> None:
    """matplotlib placed the texts by its own font; the page shows them in another."""
    page = page_of(browser, "", "", width)
    collisions = page.evaluate(
        """() => [...document.querySelectorAll('.sl-svg')].flatMap(svg => {
            const box = e => [e.textContent, e.getBoundingClientRect()];
            const texts = [...svg.querySelectorAll('text')].map(box);
            const clear = 0.15;  // of the height: line boxes are taller than letters
            return texts.flatMap(([one, a], i) => texts.slice(i + 1).filter(([, b]) =>
                a.left < b.right && b.left < a.right &&
                a.top + a.height * clear < b.bottom - b.height * clear &&
                b.top + b.height * clear < a.bottom - a.height * clear).map(([other]) => [one, other]));
        })"""
    )
    assert collisions == []
    page.context.close()


def test_text_on_a_mark_has_no_rim_of_its_own_colour(browser: Any) -> None:
    page = page_of(browser, "", "")
    page.evaluate(
        """(paper) => {
            const text = document.querySelector('.sl-svg text').cloneNode(true);
            text.setAttribute('style', `fill:var(--sl-paper,${paper})`);
            text.id = 'on-a-mark';
            document.querySelector('.sl-svg').append(text);
        }""",
        "#fefefe",
    )
    rims = page.evaluate(
        "() => [...document.querySelectorAll('.sl-svg text')].map(t => [t.id, getComputedStyle(t).stroke])"
    )
    page.context.close()
    assert dict(rims)["on-a-mark"] == "none"
    assert all(rim != "none" for name, rim in rims if name != "on-a-mark")
