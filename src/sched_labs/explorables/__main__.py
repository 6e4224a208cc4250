"""`python -m sched_labs.explorables`: draw the still pictures anew, in a headless Chromium."""

from __future__ import annotations

import shutil
import sys

from ..core.errors import SchedLabError
from . import PICTURES, TITLES, modules, recorded


def drawn(names: list[str]) -> dict[str, str]:
    """The still pictures, by name.  Raises SchedLabError where there is no Chromium or no Playwright."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise SchedLabError("Playwright is not installed.", "It comes with the test packages.") from error
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        raise SchedLabError("There is no Chromium.", "scripts/provision.sh --tests installs it.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.add_script_tag(content=modules.for_pages())
        pictures = {name: still(page, name) for name in names}
        browser.close()
    return pictures


def still(page: object, name: str) -> str:
    """One still picture, drawn by the modules in this page."""
    call = "([name, data]) => schedLabsModules.frame.still(schedLabsModules[name], data).svg"
    return str(page.evaluate(call, [name, recorded(name)[0]]))  # type: ignore[attr-defined]


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    for name, svg in drawn(sys.argv[1:] or list(TITLES)).items():
        (PICTURES / f"{name}.svg").write_text(svg + "\n", encoding="utf-8")
        print(f"{name}: {len(svg)} bytes")


if __name__ == "__main__":
    main()
