"""How every figure looks: one palette whose colours keep their meaning, and type for the last row.

A colour is named by what it stands for, never by what it looks like.  Each has a value for light and one for
dark pages; a figure is drawn with the light values, and `figures.svg` turns them into CSS variables.  The
values were searched for the largest smallest difference under simulated protanopia, deuteranopia and
tritanopia (Machado, Oliveira and Fernandes 2009), with a contrast of at least 3:1 to the page (WCAG 2.2,
1.4.11); the tests compute both again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib

from ..core.errors import ParameterError


class Colour(NamedTuple):
    """What a colour stands for, and its value on light and on dark pages."""

    meaning: str
    light: str
    dark: str


# Data: a colour means the same thing in every chapter.
DIRECT = "direct"
WARMUP = "warmup"
WAKEUP = "wakeup"
PREEMPTED = "preempted"
THROTTLED = "throttled"
OWN = "own"
RIVAL = "rival"
REALTIME = "realtime"
SYSTEM = "system"
ALONE = "alone"
RECORDED = "recorded"
PREDICTED = "predicted"
# Everything around the data.
INK = "ink"
NEUTRAL = "neutral"
GRID = "grid"
FLOOR = "floor"
PAPER = "paper"

PALETTE: dict[str, Colour] = {
    DIRECT: Colour("direct cost of a switch", "#0a58d8", "#3f8cff"),
    WARMUP: Colour("warming the caches up again", "#d65f00", "#d8602a"),
    WAKEUP: Colour("waiting for a CPU after a wake-up", "#008f5a", "#35c985"),
    PREEMPTED: Colour("waiting for a CPU after a preemption", "#ab2fa8", "#f79ae0"),
    THROTTLED: Colour("held back by a CPU limit", "#553300", "#f0e07a"),
    OWN: Colour("a thread of the same program has the CPU", "#20335e", "#5e3ef6"),
    RIVAL: Colour("another program has the CPU", "#c5323b", "#c6032f"),
    REALTIME: Colour("a real-time thread has the CPU", "#231325", "#c674f5"),
    SYSTEM: Colour("the kernel itself has the CPU", "#b86715", "#dd750e"),
    ALONE: Colour("alone: the baseline without a switch", "#4d5966", "#dfe5eb"),
    RECORDED: Colour("recorded on another machine", "#8b96a4", "#6d7987"),
    PREDICTED: Colour("your prediction", "#0b0f14", "#ffffff"),
    INK: Colour("text", "#1c2530", "#e6eaef"),
    NEUTRAL: Colour("axes, notes and what is not judged", "#5c6773", "#a6b0bb"),
    GRID: Colour("grid", "#e1e5ea", "#2f363e"),
    FLOOR: Colour("noise floor: no difference seen", "#e9ecf0", "#272d35"),
    PAPER: Colour("page", "#fefefe", "#121212"),
}
DATA = (DIRECT, WARMUP, WAKEUP, PREEMPTED, THROTTLED, ALONE, RECORDED)
# Whom a wait or a CPU's time is charged to, and what stands beside these in one figure.
CAUSES = (OWN, RIVAL, REALTIME, SYSTEM, WAKEUP, THROTTLED, ALONE, RECORDED)

# A figure is 560 units wide (points in print, CSS pixels at 1:1); text is sized against that width, so that
# it still reads from the last row on a projector, and on a phone: of 390 pixels the book's margins leave a
# figure 358, in which the smallest text is 9 pixels high.
WIDTH = 560
TEXT = 15.0
SMALL = 14.1
SANS = ("DejaVu Sans",)


def colour(name: str) -> str:
    """The light value of a colour, for matplotlib.  Raises ParameterError for a name that has no meaning."""
    return _known(name).light


def meaning(name: str) -> str:
    """What a colour stands for, in the words that legends use."""
    return _known(name).meaning


def _known(name: str) -> Colour:
    try:
        return PALETTE[name]
    except KeyError:
        raise ParameterError(
            f"No colour of the book means {name!r}.", f"Choose one of {', '.join(PALETTE)}."
        ) from None


def _settings() -> dict[Any, Any]:
    ink, neutral, grid, paper = (colour(name) for name in (INK, NEUTRAL, GRID, PAPER))
    return {
        "font.family": list(SANS),
        "font.size": TEXT,
        "text.color": ink,
        "text.parse_math": False,  # a machine's name may hold a dollar sign
        "text.usetex": False,
        "axes.titlesize": TEXT,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.titlecolor": ink,
        "axes.titlepad": 8.0,
        "axes.labelsize": TEXT,
        "axes.labelcolor": ink,
        "axes.labelpad": 6.0,
        "axes.edgecolor": neutral,
        "axes.linewidth": 1.0,
        "axes.facecolor": paper,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.unicode_minus": True,
        "grid.color": grid,
        "grid.linewidth": 0.9,
        "xtick.color": neutral,
        "ytick.color": neutral,
        "xtick.labelcolor": ink,
        "ytick.labelcolor": ink,
        "xtick.labelsize": SMALL,
        "ytick.labelsize": SMALL,
        "xtick.minor.visible": False,
        "ytick.minor.visible": False,
        "legend.fontsize": SMALL,
        "legend.labelcolor": ink,
        "legend.frameon": False,
        "legend.handlelength": 1.9,
        "legend.handletextpad": 0.6,
        "legend.columnspacing": 1.4,
        "legend.labelspacing": 0.35,
        "legend.borderaxespad": 0.2,
        "lines.linewidth": 2.4,
        "lines.markersize": 7.5,
        "lines.solid_capstyle": "round",
        "lines.dash_capstyle": "butt",
        "figure.facecolor": paper,
        "figure.dpi": 72.0,
        "savefig.facecolor": paper,
        "savefig.edgecolor": "none",
        "path.simplify": True,
        "svg.fonttype": "none",
        "svg.hashsalt": "sched-labs",
        "pdf.fonttype": 42,
    }


@contextmanager
def drawing() -> Iterator[None]:
    """matplotlib's settings as the figures need them, for one `with`; the caller's stay as they were."""
    with matplotlib.rc_context(_settings()):
        yield
