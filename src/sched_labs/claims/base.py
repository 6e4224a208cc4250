"""What people say about the scheduler, each sentence judged on the reader's own run.

A verdict is one of three: *holds here*, *does not hold here*, *cannot tell here*; always with the reason, in
numbers of this run.  The sentences are the literature's, not ours: many are wrong somewhere, and that is why.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

import pandas as pd

from ..core.errors import ParameterError, SchedLabError
from ..core.result import Result
from ..core.words import size_text as size  # noqa: F401  the words of the claims, short
from ..core.words import time_text as ns  # noqa: F401
from .sources import linked

HOLDS, FAILS, UNKNOWN = "holds here", "does not hold here", "cannot tell here"
_CLASS = {HOLDS: "holds", FAILS: "fails", UNKNOWN: "unknown"}
_THERE = {HOLDS: "holds", FAILS: "does not hold", UNKNOWN: "cannot be told"}

# Sources that more than one chapter judges.
WEB_COURSE = "a web course on context switches"
LATENCY_COURSE = "a web course on scheduler latency"
SWITCH_LIST = "a collection of switch benchmarks"
ONE_VM = "what one cloud virtual machine showed"


@dataclass(frozen=True)
class Verdict:
    """How a claim fares on one run; `there`: how on a recorded run that stands in for one of this machine."""

    outcome: str
    reason: str
    there: str = ""

    @property
    def pill(self) -> str:
        """The verdict in two or three words."""
        return self.there.replace("here", "there") or self.outcome


class CannotTell(Exception):
    """Raised by a check that lacks what it needs; its text is the reason."""


class BrokenCheck(SchedLabError):
    """A check that failed in a way it does not know: a mistake in this book, and no verdict."""


@dataclass(frozen=True)
class Claim:
    """A sentence, where it was said, the kind of result that can test it, and the check on its summary.

    The check uses intervals, so that noise ends in *cannot tell here*; a run that is flagged for what went on
    around it is judged all the same, and the verdict says that it is flagged.

    decided   it is about what the scheduler decides, in parts of a turn: virtual time tells that, too
    """

    id: str
    text: str
    source: str
    kind: str
    test: Callable[[pd.DataFrame], Verdict]
    decided: bool = False

    def check(self, result: Result, table: pd.DataFrame | None = None) -> Verdict:
        """Judge the claim on a run.

        table   the run's summary, for whoever checks several claims on it; default: computed here
        Raises ParameterError for a result of another kind, and BrokenCheck, which names the claim, where its
        check itself goes wrong.
        """
        if result.kind != self.kind:
            raise ParameterError(
                f"The claim {self.id} is about {self.kind}, not {result.kind}.",
                "Give it a result of that kind.",
            )
        if result.timing == "vm-emulated" or (result.timing == "deterministic" and not self.decided):
            return Verdict(UNKNOWN, "This ran in a guest whose times are no machine's.")
        table = result.summary() if table is None else table.copy()
        try:
            verdict = self.test(table)
        except CannotTell as reason:
            verdict = Verdict(UNKNOWN, str(reason))
        except Exception as error:
            raise BrokenCheck(
                f"The check of the claim {self.id} broke on this run: {type(error).__name__}: {error}",
                "The mistake is the book's; the other claims can be judged by their ids.",
            ) from error
        said = ends_once(verdict.reason)
        if verdict.outcome != UNKNOWN and (few := result.few_trials) > 1 and _SPANS.search(said):
            said += f" (Of {few} trials: an interval is at most their range.)"
        if result.stands_in:
            there = f"On the recorded machine it {_THERE[verdict.outcome]}: {said}"
            return Verdict(UNKNOWN, f"Not measured here. {there}", verdict.outcome)
        if verdict.outcome != UNKNOWN and result.flags:
            said += " (This run is flagged.)"
        return Verdict(verdict.outcome, said)


# Where a reason shows an interval; "from 8 to 32" is none.
_SPANS = re.compile(r"interval|at both ends|(?<![Ff]rom )(?<![\d.,])\d\S*( \S+)? to [−+-]?\d")
_UNIT = r"(?:\s?(?:ns|µs|ms|s|%|times))?"
_ALIKE = re.compile(rf"(?<![\d.,])(−?\d[\d.,]*{_UNIT}) to \1({_UNIT})(?=[),;:\]]|\.(?!\d)|$)")


def ends_once(text: str) -> str:
    """Text whose intervals with ends that are written alike, "4 to 4 ms", say "4 ms at both ends"."""
    return _ALIKE.sub(r"\1\2 at both ends", text)


def yes(true: bool, reason: str) -> Verdict:
    """Holds, or does not."""
    return Verdict(HOLDS if true else FAILS, reason)


class Judgement:
    """Claims with their verdicts on one run.  Shows itself as a table.

    elsewhere   the machine of a recorded run that stands in for one of this machine
    """

    def __init__(self, verdicts: list[tuple[Claim, Verdict]], elsewhere: str = "") -> None:
        self._verdicts, self._elsewhere = verdicts, elsewhere

    def __iter__(self) -> Iterator[tuple[Claim, Verdict]]:
        return iter(self._verdicts)

    def table(self) -> pd.DataFrame:
        """claim, outcome, reason, source, id: one row per claim."""
        return pd.DataFrame(
            [
                {"claim": c.text, "outcome": v.outcome, "reason": v.reason, "source": c.source, "id": c.id}
                for c, v in self
            ],
            columns=["claim", "outcome", "reason", "source", "id"],
        )

    def __repr__(self) -> str:
        return "\n".join(f"{v.outcome:>19}  {c.text}  {v.reason}" for c, v in self)

    def rows(self) -> str:
        """All of them as an HTML table, the most surprising first."""
        return _rows(sorted(self, key=lambda judged: _SURPRISE.index(judged[1].outcome)))

    def _repr_html_(self) -> str:
        ranked = sorted(self, key=lambda judged: _SURPRISE.index(judged[1].there or judged[1].outcome))
        first, rest = ranked[:_OPEN], ranked[_OPEN:]
        there = (
            f"<p><small>There: {escape(self._elsewhere)}, recorded.</small></p>" if self._elsewhere else ""
        )
        if not rest:
            return _rows(first) + there
        counts = ", ".join(_counted(n, pill) for pill, n in Counter(v.pill for _, v in rest).items())
        return (
            f'{_rows(first)}{there}<details class="sl-more"><summary>{len(rest)} more: {counts}</summary>'
            f"{_rows(rest)}</details>"
        )


# That a sentence which people repeat does not hold is news; that it holds is less, that one cannot tell none.
_SURPRISE = (FAILS, HOLDS, UNKNOWN)
_OPEN = 2  # verdicts that are shown before the others are asked for


def _counted(number: int, pill: str) -> str:
    """How many sentences have a verdict: "1 holds here", "2 hold here", "3 do not hold here"."""
    if number > 1:
        pill = pill.replace("does not", "do not").replace("holds", "hold")
    return f"{number} {pill.replace('cannot tell', 'cannot be told')}"


def _rows(verdicts: Sequence[tuple[Claim, Verdict]]) -> str:
    rows = "".join(
        f'<tr><td>{escape(c.text)}<span class="source">{linked(c.source)}</span></td>'
        f'<td><span class="verdict {_CLASS[v.there or v.outcome]}">{v.pill}</span></td>'
        f"<td>{escape(v.reason)}</td></tr>"
        for c, v in verdicts
    )
    return html_table(("People say", "This run", "Because"), rows)


# The book's style sheet says more.  JupyterLab has no other, and a rule of two classes that sets words right.
_STYLE = (
    "<style>table.sl-claims.sl-claims :is(td,th){text-align:start;vertical-align:top}"
    ".sl-claims .source{display:block}</style>"
)


def html_table(heads: Sequence[str], rows: str) -> str:
    """Claims as a page and JupyterLab show them; `rows` is markup."""
    said = "".join(f'<th scope="col">{escape(head)}</th>' for head in heads)
    return f'{_STYLE}<table class="sl-claims"><thead><tr>{said}</tr></thead><tbody>{rows}</tbody></table>'
