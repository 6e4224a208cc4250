"""What a fleet measured, as one HTML file that needs nothing else, and as Parquet for other programs."""

from __future__ import annotations

import importlib
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from .. import claims
from ..core.errors import ResultError
from ..core.render import render
from ..core.store import at_home, write_bytes, write_text
from ..core.words import number_text
from . import drift, strips
from .compare import DEALT, LEVEL, Common, Compared, compare
from .tables import Fleet, read

TEMPLATE = Path(__file__).with_name("report.html.j2")
MOST_MACHINES = 200  # in the page's tables
MOST_ODD, MOST_CHANGES = 40, 60
SHOWN_TRAITS = 3  # findings with a figure of their own


@dataclass(frozen=True)
class Page:
    """What was written, and its first sentence."""

    path: Path
    parquet: Path
    sentence: str


def write(folder: str | Path, page: str | Path | None = None, *, by: str | None = None) -> Page:
    """The report of a folder that `fleet run` wrote; by default beside the results.

    by   a fact of the machines to group them by, such as kernel or model
    Raises ParameterError for what is no such folder or fact, ResultError where it cannot be written.
    """
    try:
        importlib.import_module("pyarrow")
    except ImportError:
        raise ResultError(
            "The package pyarrow is not installed, which writes Parquet.", "pip install 'sched-labs[fleet]'"
        ) from None
    source = at_home(folder)
    fleet = read(source)
    target = at_home(page) if page else source / "report.html"
    compared = compare(fleet)
    write_text(target, html(fleet, compared, by=by))
    parquet = target.with_suffix(".parquet")
    write_bytes(parquet, _parquet(fleet))
    return Page(target, parquet, answer(fleet, compared))


def answer(fleet: Fleet, compared: Compared) -> str:
    """What the odd ones have in common, in a sentence."""
    kinds = fleet.numbers["kind"].nunique()
    said = f"{_counted(len(fleet.machines), 'machine')}, {_counted(kinds, 'kind')} of experiment."
    if compared.commons:
        return f"{said} {sentence(compared.commons[0])}"
    return f"{said} {_nothing(compared)}"


def _nothing(compared: Compared) -> str:
    if compared.remark:
        return f"No trait stands out. {compared.remark}"
    return (
        f"No trait stands out: of {compared.held:,} comparisons none is larger than what chance alone gives "
        f"in {100 * (1 - LEVEL):.0f} of 100 such fleets."
    )


def sentence(one: Common) -> str:
    """One finding in words."""
    if one.kind == "claim":
        text = next((claim.text for claim in claims.all_claims() if claim.id == one.name), one.name)
        where = f"“{text}” fails on {one.odd} of them, and on {one.others} of the rest"
    else:
        times = f"{number_text(one.ratio, 3)} times the rest's" if one.ratio else "apart from the rest"
        quantity = f"{one.kind}, {one.name}"
        alone = f"{one.odd} of them and {one.others} of the rest are odd there by themselves"
        where = f"{quantity} is {times}; {alone}"
    chance = f"{one.p:.2g}" if one.p > 1.01 / (DEALT + 1) else f"at most {one.p:.2g}"
    return (
        f"{_counted(one.machines, 'machine')} with {', '.join(one.traits[:4])}: {where}. "
        f"Something like it, anywhere in such a fleet, comes by chance with a probability of {chance}."
    )


def html(
    fleet: Fleet, compared: Compared, *, by: str | None = None, figures: list[tuple[str, str]] | None = None
) -> str:
    """The page.  What comes from machines is escaped.

    figures   (title, HTML) in place of the fleet's own: the board of a class draws its cards
    """
    kinds = [str(kind) for kind in fleet.numbers["kind"].unique()]
    return render(
        TEMPLATE,
        room=figures is not None,
        answer=answer(fleet, compared),
        commons=[sentence(one) for one in compared.commons],
        nothing=_nothing(compared),
        held=f"{compared.held:,}",
        sure=f"{100 * (1 - LEVEL):.0f}",
        by_trait=list(_by_trait(fleet, compared)),
        odd=list(_odd(fleet, compared)),
        figures=list(_figures(fleet, compared, kinds, by)) if figures is None else figures,
        claims=verdicts(fleet).to_dict("records"),
        changes=list(_changes(fleet)),
        fewest=drift.FEWEST,
        missing=fleet.missing.assign(machine=fleet.missing["machine"].str[:8]).to_dict("records"),
        problems=fleet.problems,
        facts=[str(name) for name in fleet.machines.columns],
        machines=[
            [str(name)[:8], *(str(value) for value in row)]
            for name, row in zip(fleet.machines.index, fleet.machines.to_numpy(), strict=True)
        ][:MOST_MACHINES],
        more=max(0, len(fleet.machines) - MOST_MACHINES),
    )


def _figures(fleet: Fleet, compared: Compared, kinds: list[str], by: str | None) -> Iterator[tuple[str, str]]:
    for kind in kinds:
        figure = strips.of_kind(fleet, compared, kind, by)
        if figure is not None:
            yield kind, figure._repr_html_()


def _by_trait(fleet: Fleet, compared: Compared) -> Iterator[tuple[str, str]]:
    """A figure for the strongest findings, its machines grouped by the trait."""
    shown = [one for one in compared.commons if one.kind != "claim"][:SHOWN_TRAITS]
    for one in shown:
        fact = next(fact for fact in fleet.machines.columns if one.traits[0].startswith(f"{fact} "))
        figure = strips.of_kind(fleet, compared, one.kind, str(fact))
        if figure is not None:
            yield one.traits[0], figure._repr_html_()


def _odd(fleet: Fleet, compared: Compared) -> Iterator[dict[str, str]]:
    """The machines that are odd in most numbers, with the number in which they are most."""
    odd = compared.odd
    newest = fleet.newest().set_index(["machine", "kind", "name", "column"])["value"]
    middles = fleet.newest().groupby(["kind", "name", "column"], observed=True)["value"].median()
    counts = odd["machine"].value_counts()
    for machine in counts.index[:MOST_ODD]:
        first = odd[odd["machine"] == machine].iloc[0]
        key = (first["kind"], first["name"], first["column"])
        kind, column = str(first["kind"]), str(first["column"])
        yield {
            "machine": str(machine)[:8],
            "count": str(counts[machine]),
            "number": f"{first['kind']}: {first['name']}",
            "value": strips.value_text(kind, column, float(newest[(machine, *key)])),
            "median": strips.value_text(kind, column, float(middles[key])),
        }


def verdicts(fleet: Fleet) -> pd.DataFrame:
    """A row per claim that somebody judged: id, claim, holds, fails, unknown (counts of machines), in_common.

    in_common   facts that all machines on which it fails share, and none of those on which it holds
    """
    table, rows = fleet.newest_claims(), []
    by_claim = dict(list(table.groupby("id"))) if len(table) else {}
    for claim in claims.all_claims():
        if claim.id not in by_claim:
            continue
        own = by_claim[claim.id].groupby("outcome")["machine"].agg(list)
        holds, fails, unknown = (own.get(one, []) for one in (claims.HOLDS, claims.FAILS, claims.UNKNOWN))
        rows.append(
            {
                "id": claim.id,
                "claim": claim.text,
                "holds": len(holds),
                "fails": len(fails),
                "unknown": len(unknown),
                "in_common": _shared(fleet.machines.loc[fails], fleet.machines.loc[holds]),
            }
        )
    return pd.DataFrame(rows, columns=["id", "claim", "holds", "fails", "unknown", "in_common"])


def _shared(some: pd.DataFrame, others: pd.DataFrame) -> str:
    if some.empty or others.empty:
        return ""
    first = some.iloc[0]
    theirs = (some == first).all() & ~(others == first).any()
    return ", ".join(f"{fact} {first[fact]}" for fact in some.columns[theirs])


def _changes(fleet: Fleet) -> Iterator[dict[str, str]]:
    for row in drift.changes(fleet).head(MOST_CHANGES).to_dict("records"):
        sides = [
            strips.value_text(str(row["kind"]), str(row["column"]), row[one]) for one in ("before", "after")
        ]
        yield {
            "machine": str(row["machine"])[:8],
            "number": f"{row['kind']}: {row['name']}",
            "what": f"step on {row['since']:%Y-%m-%d %H:%M}" if row["what"] == "step" else "drift",
            "sides": " → ".join(sides),
            "facts": row["facts"],
        }


def _parquet(fleet: Fleet) -> bytes:
    """Every number of every round beside the machine's newest facts, as fact_NAME."""
    facts = fleet.machines.add_prefix("fact_").astype("category")
    table = fleet.numbers.merge(facts, left_on="machine", right_index=True, how="left")
    with io.BytesIO() as out:
        table.to_parquet(out, engine="pyarrow", index=False)
        return out.getvalue()


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
