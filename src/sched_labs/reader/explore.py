"""A CPU limit under sliders: what the bandwidth model computes for it, redrawn at every move.

    from sched_labs import explore
    explore.limit(quota_ms=50, threads=4, cpus=2)

In JupyterLab these are sliders over the latencies of a simulated minute, and on a page whose cells run they
are plain ones.  A page that was built has no kernel to ask, so it shows curves computed when it was built:
the tail over the load, for several numbers of threads.
"""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple

from ..core.errors import ParameterError, SchedLabError
from ..core.progress import on_page
from ..draw import bandwidth as pictures
from ..limits import bandwidth
from .widgets import bundle, form

LOADS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
THREADS = (1, 2, 4, 8)
SIMULATED_S = 60.0


class _Slider(NamedTuple):
    label: str
    low: float
    high: float
    step: float


_SLIDERS = {
    "quota_ms": _Slider("quota [ms]", 5, 400, 5),
    "period_ms": _Slider("period [ms]", 5, 500, 5),
    "burst_ms": _Slider("burst [ms]", 0, 400, 5),
    "threads": _Slider("threads", 1, 16, 1),
    "cpus": _Slider("CPUs", 1, 16, 1),
    "work_ms": _Slider("work of a request [ms]", 0.5, 50, 0.5),
    "load_percent": _Slider("load, of the quota [%]", 5, 150, 5),
}
_WHOLE = {"threads", "cpus"}


class Limit:
    """A limit and a load, to be moved.  `values` are the sliders' own: ms, per cent and counts."""

    def __init__(self, **values: float) -> None:
        self.values = values
        self.simulate()  # what cannot be is refused here, not at the first move

    def simulate(self, **moved: float) -> bandwidth.Simulation:
        """One simulated minute, with these values moved.  Raises ParameterError as the model does."""
        v = self.values | moved
        quota_us, period_us, work_us = (1e3 * v[name] for name in ("quota_ms", "period_ms", "work_ms"))
        return bandwidth.simulate(
            quota_us,
            period_us,
            threads=int(v["threads"]),
            cpus=int(v["cpus"]),
            burst_us=1e3 * v["burst_ms"],
            duration_s=SIMULATED_S,
            arrivals_per_s=v["load_percent"] / 100 * quota_us / period_us / work_us * 1e6,
            work_us=work_us,
        )

    def html(self) -> str:
        """The curves for a page: this quota, period and work, several loads and numbers of threads."""
        v = self.values
        table = bandwidth.grid(
            LOADS,
            THREADS,
            quota_us=1e3 * v["quota_ms"],
            period_us=1e3 * v["period_ms"],
            work_us=1e3 * v["work_ms"],
            burst_us=1e3 * v["burst_ms"],
        )
        return pictures.grid(table)._repr_html_()

    def widget(self) -> Any:
        """The sliders over the figure; what cannot be is said in its place."""
        import ipywidgets

        sliders = {
            name: (ipywidgets.IntSlider if name in _WHOLE else ipywidgets.FloatSlider)(
                value=self.values[name],
                min=each.low,
                max=each.high,
                step=each.step,
                description=each.label,
                continuous_update=False,
                style={"description_width": "12em"},
                layout=ipywidgets.Layout(width="34em", max_width="100%"),
            )
            for name, each in _SLIDERS.items()
        }
        shown = ipywidgets.HTML()

        def draw(_: Any = None) -> None:
            try:
                run = self.simulate(**{name: slider.value for name, slider in sliders.items()})
                shown.value = pictures.latency(run)._repr_html_()
            except SchedLabError as error:  # a callback's traceback would go where no reader looks
                shown.value = f"<p>{error}</p>"

        for slider in sliders.values():
            slider.observe(draw, names="value")
        draw()
        return ipywidgets.VBox([*sliders.values(), shown])

    def form(self) -> str:
        """The sliders for a page whose cells run."""
        fields = "".join(
            f'<label>{escape(each.label)} <input type="range" name="{name}" min="{each.low:g}" '
            f'max="{each.high:g}" step="{each.step:g}" value="{self.values[name]:g}"> '
            f"<output>{self.values[name]:g}</output></label>"
            for name, each in _SLIDERS.items()
        )

        def draw(**moved: str) -> Any:
            return pictures.latency(self.simulate(**{name: float(text) for name, text in moved.items()}))

        return form(draw, fields, "Compute")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        html = self.form() if on_page() else self.html()
        return bundle(self.widget, html, repr(self.simulate()))


def limit(
    *,
    quota_ms: float = 50,
    period_ms: float = 100,
    burst_ms: float = 0,
    threads: int = 4,
    cpus: int = 2,
    work_ms: float = 5,
    load_percent: float = 80,
) -> Limit:
    """Sliders that start at these values; `load_percent` is the CPU time that requests need, of the quota.

    Raises ParameterError for a value outside its slider, and for what the kernel would refuse.
    """
    values = {
        "quota_ms": quota_ms,
        "period_ms": period_ms,
        "burst_ms": burst_ms,
        "threads": threads,
        "cpus": cpus,
        "work_ms": work_ms,
        "load_percent": load_percent,
    }
    for name, value in values.items():
        each = _SLIDERS[name]
        if not each.low <= value <= each.high:
            raise ParameterError(f"{name} cannot be {value!r}.", f"Give {each.low:g} to {each.high:g}.")
    return Limit(**values)
