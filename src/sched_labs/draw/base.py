"""What a figure is, and how a kind of result finds the function that draws it."""

from __future__ import annotations

import io
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pandas as pd
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from numpy.typing import ArrayLike

from ..core import registry
from ..core.errors import ParameterError, ResultError
from ..core.store import at_home, write_bytes
from . import axes, style, svg

SUFFIXES = (".svg", ".png", ".pdf")
INTERVAL = "interval over the trials"


class Drawable(Protocol):
    """What a figure needs of a result (`sched_labs.core.result.Result` has it)."""

    @property
    def kind(self) -> str: ...
    @property
    def data(self) -> pd.DataFrame: ...
    @property
    def machine(self) -> dict[str, Any]: ...
    @property
    def parameters(self) -> dict[str, Any]: ...
    @property
    def tables(self) -> dict[str, pd.DataFrame]: ...
    @property
    def flags(self) -> list[str]: ...
    @property
    def stands_in(self) -> str: ...
    def summary(self) -> pd.DataFrame: ...
    def records(self, table: str) -> list[dict[str, Any]]: ...
    def provenance_line(self) -> str: ...


_NS = {"ns": 1.0, "us": 1e3, "µs": 1e3, "μs": 1e3, "ms": 1e6, "s": 1e9}
_BYTES = {"B": 1.0, "bytes": 1.0, "KiB": 1024.0, "MiB": 1024.0**2, "GiB": 1024.0**3}
_SHARE = "%"


@dataclass(frozen=True)
class Prediction:
    """What the reader expected: a time, a size or a share, drawn against the axis of such values."""

    value: float
    unit: str
    label: str = "your prediction"

    @property
    def ns(self) -> float | None:
        """The value in ns, or None when it is no time."""
        return self.value * _NS[self.unit] if self.unit in _NS else None

    @property
    def size_bytes(self) -> float | None:
        """The value in bytes, or None when it is no size."""
        return self.value * _BYTES[self.unit] if self.unit in _BYTES else None

    @property
    def percent(self) -> float | None:
        """The value as a share in percent, or None when it is none."""
        return self.value if self.unit == _SHARE else None


Predictions = Sequence[Prediction]


class Figure:
    """A drawn figure with everything that belongs to it.

    `data` is the frame that was drawn (its columns are described by the `frame` function of the module that
    drew it), `also` are frames that further panels show, `caption` is one message computed from the
    data, `alt` the figure in words for those who cannot see it, `provenance` where and when it was measured,
    and `mpl` the matplotlib figure.  A drawer leaves kind and provenance to `draws`, which also adds to the
    alternative text what stands behind the run; one that says where it comes from has said all of it.
    `pale` says whether a recorded run is drawn: it may have nothing that this machine has.
    `timing` says how the times on its axes passed (axes.clock); it stays
    native where a drawer keeps several clocks apart by itself.
    """

    timing = axes.NATIVE

    def __init__(
        self,
        mpl: Drawing,
        kind: str = "",
        *,
        alt: str,
        caption: str,
        data: pd.DataFrame,
        provenance: str = "",
        title: str = "",
        also: Sequence[pd.DataFrame] = (),
        pale: bool = True,
    ) -> None:
        self.mpl = mpl
        self.kind = kind
        self.alt = alt
        self.caption = caption
        self.provenance = provenance
        self.data = data
        self.title = title or kind
        self.also = also
        self.pale = pale
        self.laid_out = False  # for a page: another renderer's words have other sizes

    def __repr__(self) -> str:
        return f"<Figure {self.kind}: {self.caption}>"

    def svg(self) -> str:
        """One inline `<svg>` whose colours are CSS variables, for a page of one's own."""
        with style.drawing(), axes.clock(self.timing):
            self.laid_out = True
            return svg.inline(self.mpl, self.title, self.alt)

    def _repr_html_(self) -> str:
        width = self.mpl.get_size_inches()[0] * 72
        return svg.page_figure(self.svg(), self.caption, self.provenance, width)

    def save(self, path: str | Path) -> Path:
        """Write the figure with its caption and provenance below it, as .svg, .png or .pdf; returns the path.

        A saved figure has the light colours as plain values, because most programs know no CSS variables.
        Raises ResultError for another suffix and for a place that cannot be written.
        """
        target = at_home(path)
        if target.suffix.lower() not in SUFFIXES:
            raise ResultError(
                f"A figure cannot be saved as {target.name!r}.", f"End the name in {', '.join(SUFFIXES)}."
            )
        with style.drawing(), axes.clock(self.timing):
            notes = self._write_below()
            drawn = io.BytesIO()
            try:
                # PNG at 1,680 pixels across: sharp on a projector.
                self.mpl.savefig(
                    drawn,
                    format=target.suffix.lower()[1:],
                    dpi=216 if target.suffix.lower() == ".png" else 72,
                    bbox_inches="tight",
                    pad_inches=0.12,
                    metadata=_about(target.suffix.lower(), self),
                )
            finally:
                for note in notes:
                    note.remove()
        write_bytes(target, drawn.getvalue())
        return target

    def _write_below(self) -> list[Any]:
        notes: list[Any] = []
        height = self.mpl.get_size_inches()[1] * 72
        down = 12.0
        for text, size, name in (
            (self.caption, style.SMALL, style.INK),
            (self.provenance, style.SMALL - 2.5, style.NEUTRAL),
        ):
            lines = textwrap.wrap(text, int(style.WIDTH / (0.55 * size))) if text else []
            note = self.mpl.text(
                0.01, -down / height, "\n".join(lines), va="top", size=size, color=style.colour(name)
            )
            note.set_in_layout(True)
            notes.append(note)
            down += len(lines) * size * 1.3 + 6
        return notes


def _about(suffix: str, figure: Figure) -> dict[str, Any]:
    if suffix == ".svg":
        return {"Title": figure.title, "Description": figure.alt, "Date": None}
    if suffix == ".pdf":
        return {"Title": figure.title, "Subject": figure.alt, "CreationDate": None}
    return {"Title": figure.title, "Description": figure.alt}


class Drawer(Protocol):
    """Draws one kind of result."""

    def __call__(
        self, result: Drawable, recorded: Drawable | None, predictions: Sequence[Prediction]
    ) -> Figure: ...


def draws(kind: str, *, own_clocks: bool = False, short_times: bool = False) -> Callable[[Drawer], Drawer]:
    """Decorator: this function draws the results of this kind.

    own_clocks: it has axes for virtual, emulated and real time, and keeps them apart by itself.
    short_times: its message is about times under a millisecond, of which an emulated machine says nothing.
    """

    def register(drawer: Drawer) -> Drawer:
        registry.add_figure(kind, partial(_draw, kind, drawer, own_clocks, short_times))
        return drawer

    return register


def draw(
    result: Drawable,
    *,
    recorded: Drawable | None = None,
    predictions: Sequence[Prediction | Mapping[str, Any]] = (),
) -> Figure:
    """Draw a result by its kind, over a recorded one (pale) and with the reader's predictions (dashed).

    A prediction is a `Prediction`, or a mapping with "value" and "unit" (and "label") as the store keeps it.
    A result from a guest is drawn in the time of its guest (axes.clock).
    Raises ParameterError for a kind that no figure draws, a recorded result of another kind or clock and a
    prediction in a unit that the figure has no axis for, and ResultError for a result that holds nothing to
    draw, and for one of an emulated machine that is about times under a millisecond.
    """
    return registry.figure(result.kind)(result, recorded=recorded, predictions=predictions)


def _draw(
    kind: str,
    drawer: Drawer,
    own_clocks: bool,
    short_times: bool,
    result: Drawable,
    *,
    recorded: Drawable | None = None,
    predictions: Sequence[Prediction | Mapping[str, Any]] = (),
) -> Figure:
    if recorded is not None and recorded.kind != result.kind:
        raise ParameterError(
            f"A recorded {recorded.kind!r} cannot be laid under a {result.kind!r}.",
            "Take a recorded run of the same experiment.",
        )
    given = [_prediction(prediction) for prediction in predictions]
    if own_clocks:
        return _signed(drawer(result, recorded, given), kind, result, recorded, given)
    timing = one_clock([result] if recorded is None else [result, recorded])
    if timing == axes.VIRTUAL and any(prediction.ns for prediction in given):
        raise ParameterError(
            "A prediction is of a machine's time, and this run's time is virtual.",
            "Draw it without predictions.",
        )
    if timing == axes.EMULATED and short_times:
        raise ResultError(
            "This figure is about times under a millisecond, and of those an emulated machine says nothing.",
            "Run it with timing='deterministic' for virtual time, or on this machine, without kernel=; "
            "`.data` has what was measured.",
        )
    with axes.clock(timing):
        figure = _signed(drawer(result, recorded, given), kind, result, recorded, given)
    figure.timing = timing
    return figure


def _signed(
    figure: Figure, kind: str, result: Drawable, recorded: Drawable | None, predictions: Sequence[Prediction]
) -> Figure:
    """The figure with what every one of its kind says alike."""
    figure.kind, figure.title = kind, figure.title or kind
    if not figure.provenance:
        behind = recorded if figure.pale else None
        figure.provenance = provenance(result, behind)
        figure.alt += also_drawn(behind, predictions)
    return figure


def one_clock(results: Sequence[Drawable]) -> str:
    """How the time of all these results passed.  ParameterError where they have no common axis."""
    timings = {str(getattr(result, "timing", axes.NATIVE)) for result in results}
    timings = {axes.NATIVE if timing == "vm-kvm" else timing for timing in timings}
    if len(timings) > 1:
        raise ParameterError(
            f"Times of {listed(sorted(timings))} runs have no common axis.",
            "Draw them one by one, or compare runs whose time passed in the same way.",
        )
    return timings.pop()


def _prediction(given: Prediction | Mapping[str, Any]) -> Prediction:
    try:
        made = (
            given
            if isinstance(given, Prediction)
            else Prediction(
                float(given["value"]), str(given["unit"]), str(given.get("label", "your prediction"))
            )
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ParameterError(
            f"{given!r} is not a prediction.", "Give a value and a unit, such as Prediction(2, 'µs')."
        ) from error
    if made.ns is None and made.size_bytes is None and made.percent is None:
        raise ParameterError(
            f"A prediction in {made.unit!r} is neither a time nor a size nor a share.",
            f"Use one of {', '.join((*_NS, *_BYTES, _SHARE))}.",
        )
    if not (math.isfinite(made.value) and made.value > 0):
        raise ParameterError(
            f"A prediction of {made.value} {made.unit} cannot be drawn on these axes.",
            "Use a value above zero.",
        )
    return made


def columns(frame: pd.DataFrame, wanted: Sequence[str], what: str) -> pd.DataFrame:
    """The wanted columns of a frame; ResultError when it has none of a name, or no row at all."""
    if frame.empty:
        raise ResultError(f"{what} is empty: nothing was measured.", "Run the experiment again, for longer.")
    missing = [name for name in wanted if name not in frame.columns]
    if missing:
        raise ResultError(
            f"{what} has no column {', '.join(missing)}.",
            "It was made by another version; run the experiment again.",
        )
    return frame.loc[:, list(wanted)].reset_index(drop=True)


def machine_name(machine: Mapping[str, Any], *, longest: int = 34) -> str:
    """A machine in a few words for a legend: "AMD EPYC 9R14, Linux 6.18"."""
    model = str(machine.get("cpu_model") or "")
    model = re.sub(r"\((R|TM|tm|C)\)", "", model)
    model = re.sub(r"\b(CPU|Processor|\d+-Core)\b|@.*", "", model)
    model = " ".join(model.split()) or "unknown CPU"
    release = re.match(r"\d+\.\d+", str(machine.get("kernel") or ""))
    kernel = f", Linux {release[0]}" if release else ""
    room = longest - len(kernel)
    return (model if len(model) <= room else f"{model[: room - 1].rstrip()}…") + kernel


def provenance(result: Drawable, recorded: Drawable | None, *, drawn: bool = True) -> str:
    """Where the numbers come from, why they should be doubted, and where a recorded run comes from.

    drawn   whether the recorded run stands pale in the figure, or in its caption only
    """
    parts = [result.provenance_line()]
    if recorded is not None:
        parts.append(f"{'Pale, recorded' if drawn else 'Recorded'}: {recorded.provenance_line()}")
    doubts = result.flags
    if doubts:
        more = f" (and {len(doubts) - 3} more)" if len(doubts) > 3 else ""
        parts.append(f"{mark(result)}: {' '.join(doubts[:3])}{more}")
    return " ".join(part if part.endswith((".", ")")) else f"{part}." for part in parts)


def in_the_recorded_run(said: str, here: str) -> str:
    """What a caption adds of a recorded run whose own would be `said`; nothing where there is none."""
    if not said:
        return ""
    return " In the recorded run it is the same." if said == here else f" In the recorded run: {said}"


def mark(result: Drawable) -> str:
    """What a line without room for all doubts says of a run that has some."""
    return "Recorded elsewhere" if result.stands_in else "Flagged"


def times_ns(predictions: Sequence[Prediction]) -> list[tuple[str, float]]:
    """Predictions for a figure with a time axis only: label and ns.  ParameterError for a size among them."""
    sizes = [made for made in predictions if made.ns is None]
    if sizes:
        raise ParameterError(
            f"A prediction in {sizes[0].unit!r} has no axis on this figure.", f"Use one of {', '.join(_NS)}."
        )
    return [
        (f"{made.label}: {axes.time_text(ns)}", ns) for made in predictions if (ns := made.ns) is not None
    ]


def percents(predictions: Sequence[Prediction]) -> list[tuple[str, float]]:
    """Predictions for a figure of shares only: label and percent.  ParameterError for others among them."""
    others = [made for made in predictions if made.percent is None]
    if others:
        raise ParameterError(
            f"A prediction in {others[0].unit!r} has no axis on this figure.",
            f"It shows shares, in {_SHARE}.",
        )
    return [
        (f"{made.label}: {axes.number_text(share)} %", share)
        for made in predictions
        if (share := made.percent) is not None
    ]


def dashed() -> dict[str, Any]:
    """How a prediction is drawn."""
    return {"color": style.colour(style.PREDICTED), "linestyle": (0, (5, 3)), "linewidth": 1.8, "zorder": 2.9}


def recorded_name(recorded: Drawable) -> str:
    """What a legend calls a recorded run."""
    return f"recorded: {machine_name(recorded.machine)}"


def also_in_legend(recorded: Drawable | None, predictions: Sequence[Prediction], **look: Any) -> list[Line2D]:
    """What a legend adds for a recorded run, which looks so, and for predictions of times."""
    handles = []
    if recorded is not None:
        look = {"color": style.colour(style.RECORDED), **look}
        handles.append(Line2D([], [], label=recorded_name(recorded), **look))
    return handles + [Line2D([], [], label=label, **dashed()) for label, _ in times_ns(predictions)]


def interval_in_legend(role: str, ends: ArrayLike, *, upright: bool = False) -> list[Line2D]:
    """What a legend says of the line through a dot; of few trials it is their range, and the run says so.

    ends: where such lines end; nothing is said where none is known, as of a single trial.
    """
    if not np.isfinite(np.asarray(ends, dtype=float)).any():
        return []
    way: dict[str, Any] = {"marker": "|", "markersize": 12, "markeredgewidth": 2.4, "linestyle": "none"}
    return [Line2D([], [], label=INTERVAL, color=style.colour(role), **(way if upright else {}))]


def also_drawn(recorded: Drawable | None, predictions: Sequence[Prediction]) -> str:
    """What an alternative text adds for a recorded run and for predictions."""
    parts = (
        [] if recorded is None else [f" Behind it, pale: a run recorded on {machine_name(recorded.machine)}."]
    )
    for made in predictions:
        if made.percent is not None:
            value = f"{axes.number_text(made.percent)} %"
        elif made.size_bytes is not None:
            value = axes.size_text(made.size_bytes)
        else:
            value = axes.time_text(made.ns or 0)
        parts.append(f" Dashed, {made.label}: {value}.")
    return "".join(parts)


def canvas(height: float) -> Drawing:
    """An empty figure of the book's width, height in the same units.  For use inside `style.drawing()`."""
    return Drawing(figsize=(style.WIDTH / 72, height / 72), layout=axes.Layout())


def each(rows: pd.DataFrame) -> Iterator[Any]:
    """The rows, one after the other, their values as attributes."""
    yield from rows.itertuples(index=False)


def highest(rows: pd.DataFrame, column: str) -> pd.Series[Any]:
    """The row with the highest value in a column."""
    return rows.iloc[int(np.argmax(rows[column].to_numpy(dtype=float)))]


def listed(parts: Sequence[str]) -> str:
    """Words as a list in a sentence: "a, b and c"."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
