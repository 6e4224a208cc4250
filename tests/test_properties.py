"""What holds of anything that comes from elsewhere: it is used, or refused in the module's own words.

Hypothesis makes the cases: `make test` tries 1,000, `make test-thorough` 20,000 (SCHED_LABS_CASES).
A document is mutated in few places, so that a case gets past the first check.  None may end in an error
of Python's own, in a file outside its folder, or in an answer larger than its limit.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import string
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from machines import constructed
from test_classroom import impostor, made_up
from test_probe_helper import REQUEST, kernel_btf

from sched_labs import claims, cli, labs, machine
from sched_labs.classroom import board, card, collector
from sched_labs.core import jsontext, lock, registry, result, store
from sched_labs.core.errors import ParameterError, ResultError, SchedLabError
from sched_labs.core.result import Result
from sched_labs.fleet import compare, report, row
from sched_labs.fleet import tables as fleet_tables
from sched_labs.incidents import causes, judge, story
from sched_labs.incidents import desk as incidents_desk
from sched_labs.incidents import ledger as incidents_ledger
from sched_labs.kernels import names as kernel_names
from sched_labs.kernels import wire
from sched_labs.kernels.errors import UnknownKernelError
from sched_labs.labs import ledger
from sched_labs.limits import quotas
from sched_labs.machine import files
from sched_labs.probes.helper import btf, protocol, watching
from sched_labs.probes.helper.protocol import Refused
from sched_labs.reader import tried
from sched_labs.run.base import Run
from sched_labs.server import desk
from sched_labs.workloads import launch

CASES = int(os.environ.get("SCHED_LABS_CASES", "1000"))
_shares: list[int] = []


def cases(share: int, *arguments: Any, **named: Any) -> Callable[[Any], Any]:
    """A property that gets so many of each thousand cases.  The same ones each time."""
    _shares.append(share)

    def wrap(test: Any) -> Any:
        chosen = settings(
            max_examples=max(1, share * CASES // 1000),
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        return chosen(given(*arguments, **named)(test))

    return wrap


def test_the_cases_add_up() -> None:
    assert sum(_shares) == 1060


@pytest.fixture(autouse=True, scope="module")
def own_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder, a lock and a working folder of this module's own."""
    folder = tmp_path_factory.mktemp("properties")
    (folder / "lock").mkdir()
    (folder / "lock").chmod(0o1777)
    (folder / "here").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(folder / "data"))
        patch.setattr(lock, "_PLACES", (folder / "lock",))
        patch.chdir(folder / "here")
        yield folder


# ---- what cases are made of ----

WORDS = st.text(max_size=40) | st.sampled_from(
    ["", "²", "../../x", "\x1b[2J", "\x00", "\ud800", "-1", "1e999", "NaN", "a" * 300, "/", ".", "~root"]
)
NUMBERS = (
    st.integers()
    | st.floats()
    | st.sampled_from([0, -1, 2**31, 2**63, 2**64, 10**400, 5e-324, 1e308, float("inf"), float("nan"), True])
)
SCALARS = st.none() | st.booleans() | NUMBERS | WORDS
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4),
    max_leaves=8,
)


def _places(document: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    keys = document.keys() if isinstance(document, dict) else range(len(document))
    found = [at] if at else []
    if isinstance(document, dict | list):
        for key in keys:
            found += (
                _places(document[key], (*at, key)) if isinstance(document[key], dict | list) else [(*at, key)]
            )
    return found


@st.composite
def mutated(draw: Any, document: Any) -> Any:
    """The document with one place, or a few, put otherwise: replaced, taken away, doubled or joined."""
    changed = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        places = _places(changed)
        if not places:
            break
        *path, last = draw(st.sampled_from(places))
        inside = changed
        for key in path:
            inside = inside[key]
        how = draw(st.sampled_from(("replace", "replace", "remove", "double", "join")))
        if how == "remove":
            del inside[last]
        elif how == "double" and isinstance(inside, list):
            inside.insert(last, copy.deepcopy(inside[last]))
        elif how == "join" and isinstance(inside, dict):
            inside[draw(WORDS)] = draw(JSON)
        else:
            inside[last] = draw(JSON)
    return changed


def text_of(document: Any) -> str:
    """As a file may have it, infinities and all; what cannot be written at all is no case."""
    try:
        return json.dumps(document)
    except ValueError:  # an integer of too many digits for Python
        assume(False)
        raise


@st.composite
def bent(draw: Any, data: bytes) -> bytes:
    """The bytes with some of them put otherwise, cut or doubled."""
    changed = bytearray(data)
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(0, len(changed) - 1)))
        how = draw(st.sampled_from(("put", "cut", "insert", "number")))
        if how == "put" and changed:
            changed[at] = draw(st.integers(0, 255))
        elif how == "cut":
            del changed[at : at + draw(st.integers(1, 64))]
        elif how == "number":
            changed[at & ~3 : (at & ~3) + 4] = draw(st.sampled_from([0, 1, 2**31, 2**32 - 1])).to_bytes(
                4, "little"
            )
        else:
            changed[at:at] = draw(st.binary(max_size=16))
    return bytes(changed)


# ---- JSON, files, predictions ----


@cases(40, st.binary(max_size=60) | WORDS | JSON.map(repr))
def test_any_text_is_json_or_a_value_error(text: str | bytes) -> None:
    with contextlib.suppress(ValueError):
        found = jsontext.parse(text)
        assert jsontext.parse(json.dumps(found, allow_nan=False)) == found


@cases(30, WORDS, SCALARS, WORDS)
def test_a_prediction_is_kept_as_it_was_made_or_refused(question: str, value: Any, unit: str) -> None:
    try:
        kept = store.save_prediction(question, value, unit)
    except ParameterError as error:
        assert len(str(error)) < 600
        return
    assert store.predictions()[question] == kept


@cases(
    20,
    JSON.map(repr) | mutated({"q": {"value": 1.0, "unit": "ns", "made_at": "x"}}).map(text_of) | st.binary(),
)
def test_whatever_stands_in_the_predictions_is_read_or_told(own: Any) -> None:
    file = store.data_folder() / "predictions.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(own if isinstance(own, bytes) else own.encode(errors="surrogatepass"))
    try:
        store.predictions()
    except ResultError:
        with pytest.raises(ResultError):
            store.save_prediction("q", 1, "ns")
    file.unlink()


@cases(20, mutated({"01-cache-sizes": {"checks": 2, "hints": 1, "passed_at": "x", "seed": 4}}).map(text_of))
def test_whatever_stands_in_the_progress_is_read_or_told(text: str) -> None:
    file = store.data_folder() / "labs" / "progress.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    with contextlib.suppress(ResultError):
        ledger.progress()
        ledger.hints_shown("01-cache-sizes")
        ledger.note("01-cache-sizes", "hinted")
    file.unlink()


@cases(20, st.lists(WORDS.filter(lambda word: word not in ("..", "/", "../../x")), min_size=1, max_size=3))
def test_a_file_is_written_whole_in_its_folder_or_not_at_all(parts: list[str]) -> None:
    folder = store.data_folder() / "files"
    path = folder / "x".join(part.replace("/", "") for part in parts)
    assume(path != folder)
    try:
        store.write_text(path, "text")
    except ResultError:
        return
    assert path.read_text() == "text" and [path] == list(folder.iterdir())
    path.unlink()


@cases(10, st.binary(max_size=250))
def test_whatever_others_wrote_into_the_lock_file(said: bytes) -> None:
    with lock.machine("mine", wait_s=5):
        lock.lock_path().write_bytes(said)
        assert lock.holder().isprintable() and lock.holder()


@cases(10, JSON.map(repr) | st.dictionaries(WORDS, WORDS, max_size=3).map(text_of))
def test_whatever_stands_in_the_list_of_delivered_chapters(text: str) -> None:
    folder = store.data_folder()
    source = folder / "source.md"
    store.write_text(source, "text")
    store.write_text(folder / "notebooks" / ".as-delivered.json", text)
    desk.lay_out({"chapter": source}, folder)
    assert (folder / "notebooks" / "chapter.md").read_text() == "text"


# ---- results ----

COLUMNS = st.dictionaries(
    st.text(string.ascii_lowercase + "_µ", min_size=1, max_size=8),
    st.sampled_from(("int", "float", "bool", "words")),
    min_size=1,
    max_size=4,
)
VALUES = {
    "int": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(allow_infinity=False),
    "bool": st.booleans(),
    "words": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=12),
}


@st.composite
def tables(draw: Any) -> pd.DataFrame:
    rows, columns = draw(st.integers(1, 6)), draw(COLUMNS)
    dtypes = {"int": "int64", "float": "float64", "bool": "bool", "words": "object"}
    return pd.DataFrame(
        {
            name: pd.Series(draw(st.lists(VALUES[kind], min_size=rows, max_size=rows)), dtype=dtypes[kind])
            for name, kind in columns.items()
        }
    )


@cases(50, tables(), st.dictionaries(WORDS, SCALARS, max_size=3))
def test_a_result_comes_back_as_it_was_saved(data: pd.DataFrame, facts: dict[str, Any]) -> None:
    made = Result("warmup.sweep", data, {}, {}, facts=facts)
    try:
        text = made.to_json()
        again = result.from_json(text)
    except ResultError:
        return  # facts that no file of JSON holds
    pd.testing.assert_frame_equal(again.data, data)
    assert again.to_json() == text


HEAD = json.loads(
    Result(
        "warmup.sweep",
        pd.DataFrame({"a_ns": [1, 2], "b": ["x", None], "c": [0.5, None], "d": [True, False]}),
        {"cpus": 2},
        {"profile": "tiny"},
        tables={"waits": pd.DataFrame({"x": [1]})},
        notes=[result.Note("info", "x")],
    ).to_json()
)


@cases(90, st.sampled_from([HEAD, {**HEAD, "version": 1}]).flatmap(mutated))
def test_a_changed_result_is_read_or_told_and_stays_in_its_folder(head: Any) -> None:
    text = text_of(head)
    try:
        found = result.from_json(text)
    except ResultError as error:
        assert len(str(error)) < 700
        return
    path = found.save()
    assert path.is_relative_to(store.data_folder() / "results")
    assert result.load(path).to_json() == found.to_json()
    assert found.provenance_line() is not None and found._repr_html_()
    path.unlink()


# ---- rows of a fleet ----

ROW = {
    "format": row.FORMAT, "version": row.VERSION, "kind": "warmup.sweep", "recorded_at": "2026-01-01",
    "duration_s": 1.5, "timing": "native", "profile": "tiny", "flags": 0, "library": "0.1.0",
    "facts": {"kernel": "6.18", "cpus": 2}, "numbers": [["extra", "extra_ns", 2.0, 1.0, 3.5]],
    "claims": {"000-001": claims.HOLDS},
}  # fmt: skip


@cases(22, mutated(ROW).map(text_of) | JSON.map(repr))
def test_a_row_survives_being_kept_or_is_refused(sent: str) -> None:
    try:
        found = row.parse(sent.encode(errors="surrogatepass"))
    except SchedLabError as error:
        assert len(str(error)) < 400 and str(error).replace("\n", "").isprintable()
        return
    kept = row.text(found).encode()
    assert row.parse(kept) == found and len(kept) <= row.LARGEST_BYTES


@cases(5, st.lists(mutated(ROW).map(text_of), min_size=1, max_size=3))
def test_a_report_is_drawn_of_whatever_rows_are_taken(sent: list[str]) -> None:
    rows = []
    for number, text in enumerate(sent):
        with contextlib.suppress(SchedLabError):
            rows.append((f"{number:016x}", datetime(2026, 1, 1, tzinfo=UTC), row.parse(text.encode())))
    assume(rows)
    fleet = fleet_tables.of(rows, [], {})
    assert set(fleet.machines.index) == {machine for machine, _, _ in rows}
    assert len(report.html(fleet, compare.compare(fleet))) < 300_000


# ---- incidents, and runs for Try ----

INCIDENT = {
    "story": "ledger", "seed": 9, "started_at": "2026-01-01", "score": 35, "cause_at_s": 50, "hints": 1,
    "given": 2.5, "measured": 2, "revealed": True,
}  # fmt: skip


@cases(20, mutated([INCIDENT, INCIDENT]).map(text_of) | JSON.map(repr))
def test_whatever_stands_in_the_ledger_of_incidents_is_used_or_told(text: str) -> None:
    file = store.data_folder() / "incidents.json"
    store.write_text(file, text)
    for words in ([], ["--export", str(store.data_folder() / "incidents.csv")]):
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            assert cli.main(["incident", "score", *words]) in (0, 2)
    with contextlib.suppress(ResultError):
        assert all(0 <= incidents_ledger.score(one) <= 100 for one in incidents_ledger.entries())
    file.unlink()


STATE = {
    "name": "ledger", "seed": 9, "without": [], "cause": "", "owner": "4711:815", "group": ["/a", "v1"],
    "pids": {"service": 4712}, "started_at": "2026-01-01", "room": None,
}  # fmt: skip


@cases(15, mutated(STATE).map(text_of) | JSON.map(repr))
def test_whatever_stands_in_the_state_of_an_incident_is_one_or_told(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(incidents_desk, "_runs", lambda: True)
        patch.setattr(incidents_desk, "place", lambda: store.data_folder() / "incident")
        store.write_text(incidents_desk.place() / "state.json", text)
        with contextlib.suppress(SchedLabError):
            found = incidents_desk.running()
            assert found.plan.name in story.names() and int(found.owner.partition(":")[0]) >= 0
            assert all(type(pid) is int for pid in found.pids.values()) and found.names


@cases(10, WORDS | st.from_regex(r"-?[0-9]{1,400}(\.[0-9]{1,9})? ?(%|ms/s|1/s)?", fullmatch=True), WORDS)
def test_an_answer_to_an_incident_is_judged_or_refused(value: str, cause: str) -> None:
    with contextlib.suppress(ParameterError):
        assert abs(judge.number(value)) < float("inf")
    with contextlib.suppress(ParameterError):
        assert causes.find(cause).name in causes.CAUSES
    with contextlib.suppress(ParameterError):
        assert story.of_class(cause)[0] in story.names()


TRIED = [
    {
        "words": {"hogs": "3"},
        "figure": {"svg": "<svg/>", "caption": "a", "provenance": "b", "width": 7.5},
    }
]


@cases(10, mutated(TRIED).map(text_of) | JSON.map(repr))
def test_whatever_stands_in_a_file_for_try_is_shown_or_told(text: str) -> None:
    place = store.data_folder() / "tried.json"
    store.write_text(place, text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tried, "_place", lambda kind: place)
        with contextlib.suppress(ResultError):
            for words, figure in tried.figures("slices.sweep"):
                assert all(isinstance(word, str) for word in words.values()) and "<figure" in figure


# ---- cards ----


@cases(90, mutated(made_up()).map(text_of) | st.binary(max_size=40) | JSON.map(repr))
def test_a_card_survives_being_kept_or_is_refused(sent: Any) -> None:
    data = sent if isinstance(sent, bytes) else sent.encode(errors="surrogatepass")
    try:
        found = card.parse(data)
    except SchedLabError as error:
        assert len(str(error)) < 400 and str(error).replace("\n", "").isprintable()
        return
    kept = card.text(found).encode()
    assert card.parse(kept) == found and len(kept) <= card.LARGEST_BYTES


@cases(20, st.lists(mutated(made_up()).map(text_of), max_size=6))
def test_no_claim_gets_more_votes_than_there_are_cards(sent: list[str]) -> None:
    cards = {}
    for number, text in enumerate(sent):
        with contextlib.suppress(SchedLabError):
            cards[str(number)] = card.parse(text.encode())
    votes = report.verdicts(board.fleet(cards))
    assert not len(votes) or (votes.holds + votes.fails + votes.unknown).max() <= len(cards)
    assert set(votes.id) <= {claim.id for claim in claims.all_claims()}
    assert len(board.frame(cards)) <= len(cards) * sum(map(len, card.NUMBERS.values()))


@cases(3, st.lists(mutated(made_up()).map(text_of), min_size=1, max_size=3))
def test_a_page_is_drawn_of_whatever_cards_are_taken(sent: list[str]) -> None:
    cards = {}
    for number, text in enumerate(sent):
        with contextlib.suppress(SchedLabError):
            cards[str(number)] = card.parse(text.encode())
    assume(cards)
    assert len(board.page(cards, {})) < 300_000


@pytest.fixture(scope="module")
def collecting(own_folder: Path) -> Iterator[collector.Collector]:
    import threading

    with collector.Collector(own_folder / "cards", "127.0.0.1", 0, "4711") as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


ASKED = b"POST /card HTTP/1.1\r\nHost: x\r\nX-Code: 4711\r\nContent-Length: 2\r\n\r\n{}"


@cases(30, bent(ASKED) | st.binary(max_size=80))
def test_the_collector_answers_anything_and_says_nothing(
    collecting: collector.Collector, sent: bytes
) -> None:
    import socket

    told = io.StringIO()
    with (
        contextlib.redirect_stderr(told),
        socket.create_connection(collecting.server_address[:2], 30) as client,
    ):
        client.sendall(sent)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while more := client.recv(4096):
                answer += more
    assert len(answer) < 4096 and told.getvalue() == ""
    assert list(collecting.folder.iterdir()) == []


@cases(5, bent(b"HTTP/1.1 201 Created\r\nContent-Length: 26\r\n\r\ncard-0123456789abcdef.json"))
def test_whatever_answers_is_a_name_or_told(says: bytes) -> None:
    with impostor(says) as address:
        try:
            assert collector._NAME.fullmatch(collector.send(made_up(), address, "4711"))
        except SchedLabError as error:
            assert str(error).replace("\n", "").isprintable() and len(str(error)) < 600


# ---- the privileged helper ----


@cases(60, mutated(REQUEST))
def test_a_request_is_taken_or_refused(request: Any) -> None:
    with contextlib.suppress(Refused):
        watching.check(request)
        assert request["probe"] in watching.PROBES and 0 < request["duration_s"] <= protocol.MOST_S
        assert all(type(pid) is int and 0 < pid < protocol.PIDS for pid in request["pids"])


@cases(
    40,
    st.binary(max_size=60)
    | WORDS.map(lambda w: w.encode(errors="surrogatepass"))
    | JSON.map(repr).map(lambda t: t.encode(errors="surrogatepass")),
)
def test_a_line_is_a_request_or_refused(line: bytes) -> None:
    with contextlib.suppress(Refused):
        assert type(protocol.parsed(line)) is dict


@cases(60, st.sampled_from([kernel_btf(), kernel_btf(old=True), kernel_btf(nested=True)]).flatmap(bent))
def test_btf_is_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(Refused):
        kernel = btf.Btf(data)
        for find in (btf.find_fields, btf.find_throttling, btf.find_attribution):
            with contextlib.suppress(Refused):
                find(kernel)
        for first_version in (False, True):
            with contextlib.suppress(Refused):
                btf.find_cgroup(kernel, first_version)


# ---- guests and their packages ----


@cases(30, JSON)
def test_what_a_guest_says_comes_back(payload: Any) -> None:
    with contextlib.suppress(ValueError):  # a number of too many digits
        line = wire.encode("answer", payload)
        told = wire.decode(line)
        assert told is not None and repr(told) == repr(("answer", json.loads(json.dumps(payload))))


@cases(
    40,
    st.sampled_from(
        [wire.encode("a", [1, 2]), wire.encode("b", "x" * 9000), b'{"label": "x", "done": 1, "total": 2}']
    ).flatmap(bent),
)
def test_what_a_guest_stammers_is_nothing(line: bytes) -> None:
    wire.decode(line)
    told = wire.decode_progress(line)
    assert told is None or isinstance(told[1], int | float)


INDEX = """Package: linux-image-6.1.0-9-cloud-amd64
Version: 6.1.27-1
Architecture: amd64
Section: kernel
Depends: linux-base, kmod
Size: 123

Package: linux-image-6.19.1-amd64
Version: 6.19.1-1
Architecture: amd64
Depends: linux-binary-6.19.1-amd64, linux-base-6.19.1-amd64
Size: 12

Package: linux-binary-6.19.1-amd64
Version: 6.19.1-1
Architecture: amd64
Size: 12
"""


@cases(40, bent(INDEX.encode()), WORDS)
def test_an_index_names_kernels_or_none(index: bytes, name: str) -> None:
    found = kernel_names.packages(kernel_names.stanzas(index.decode(errors="replace")), "amd64")
    assert all(package.version and package.parts for package in found)
    with contextlib.suppress(UnknownKernelError):
        kernel_names.choose(found, kernel_names.parse(name))
    with contextlib.suppress(UnknownKernelError):
        kernel_names.choose(found, kernel_names.parse("6.1"))


# ---- strange machines ----


@st.composite
def machines(draw: Any) -> dict[str, str]:
    """A tree of /proc and /sys: a constructed machine with some files put otherwise, or CPUs made up."""
    tree = dict(draw(st.sampled_from(TREES)))
    cpu = "/sys/devices/system/cpu"
    if draw(st.booleans()):
        count = draw(st.sampled_from((1, 2, 3, 512)))
        online = draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=4, unique=True))
        tree = {path: text for path, text in tree.items() if not path.startswith(cpu)}
        tree[f"{cpu}/online"] = files.cpu_ranges(online) if draw(st.booleans()) else f"0-{count - 1}"
        tree[f"{cpu}/possible"] = f"0-{count - 1}"
        for number in online:
            tree[f"{cpu}/cpu{number}/topology/core_id"] = str(draw(st.sampled_from((-1, 0, number))))
            tree[f"{cpu}/cpu{number}/cpu_capacity"] = str(draw(st.sampled_from((1024, 446))))
    for path in draw(st.lists(st.sampled_from(sorted(tree)), max_size=4)):
        if not tree[path].startswith("-> "):
            tree[path] = draw(
                WORDS.map(lambda text: text.encode(errors="replace").decode())
                | st.integers().map(str)
                | st.sampled_from(["0-", "-", "0-99999999", "0x", "(null)", "1K\n2K", ": :", "max", "K"])
            )
    for path in draw(st.lists(st.sampled_from(sorted(tree)), max_size=3)):
        tree.pop(path, None)
    return tree


TREES = [
    build()
    for build in (
        constructed.ubuntu_2404, constructed.big_little, constructed.two_sockets, constructed.sysctl_era,
        constructed.wsl, constructed.container,
    )
]  # fmt: skip


@cases(20, machines())
def test_any_machine_can_be_surveyed(tree: dict[str, str]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        constructed.build(tree, Path(folder))
        with files.root(folder):
            found = machine.survey(fresh=True)
            assert found.cpus and found.cpus_allowed and found.line_bytes > 0
            json.dumps(found.provenance(), allow_nan=False)
        machine._last.pop(str(Path(folder).resolve()), None)


@cases(
    30,
    st.lists(st.integers(0, 5000), max_size=20, unique=True),
    WORDS | st.from_regex("[0-9,-]{0,12}", fullmatch=True),
)
def test_lists_of_cpus_and_sizes(cpus: list[int], text: str) -> None:
    assert files.cpu_list(files.cpu_ranges(cpus)) == sorted(cpus)
    with contextlib.suppress(ValueError):
        assert len(files.cpu_list(text)) <= 1 << 17
    with contextlib.suppress(ValueError):
        files.size_bytes(text)


@cases(30, WORDS | st.from_regex(r"(pingpong|wait|x)( [a-z_]+=-?[0-9a-z.]*){0,4}", fullmatch=True))
def test_a_line_of_a_workload_is_a_record_or_an_error_of_ours(line: str) -> None:
    assume(line.strip())
    with contextlib.suppress(SchedLabError):
        launch.parse(line.strip())


# ---- what readers type ----

LIMITS = st.from_regex(r"-?[0-9]{1,30}(\.[0-9]{1,4})?(m|%|ms|us|s| 100000)?", fullmatch=True) | WORDS


@cases(50, LIMITS, LIMITS, st.integers() | st.sampled_from((100_000, 1000, 1_000_000)))
def test_a_limit_is_one_or_refused(text: str, other: str, period: int) -> None:
    for read in (
        lambda: quotas.from_kubernetes(text, period_us=period),
        lambda: quotas.from_systemd(text, period=other),
        lambda: quotas.from_cpu_max(f"{text} {other}", period_us=period),
        lambda: quotas.from_cpu_max(text, period_us=period),
        lambda: quotas.from_v1({"cpu.cfs_quota_us": text, "cpu.cfs_period_us": other}),
    ):
        with contextlib.suppress(ParameterError):
            limit = read()
            assert limit.cpu_max and limit.systemd
            assert limit.quota_us is None or limit.quota_us >= 1000


@cases(20, WORDS)
def test_a_lab_is_found_or_told(name: str) -> None:
    with contextlib.suppress(ParameterError):
        assert labs.find(name) in labs.all_labs()


HARMLESS = (
    "list",
    "show",
    "compare",
    "class",
    "progress",
    "kernels",
    "lab hint",
    "lab reveal",
    "run",
    "url",
    "share",
)


@cases(20, st.sampled_from(HARMLESS), st.lists(WORDS.filter(lambda w: "\x00" not in w), max_size=3))
def test_a_command_line_ends_in_words(command: str, words: list[str]) -> None:
    if command == "run":
        words = ["no-such-experiment", *words]
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(sys, "stdin", io.StringIO())
        try:
            status = cli.main([*command.split(), *words])
        except SystemExit as end:
            status = int(str(end.code))
    assert status in (0, 1, 2) and "Traceback" not in err.getvalue()
    assert status != 2 or err.getvalue().strip()


class Begun(Exception):
    """The checks of an experiment's parameters are over."""


def _values(kind: Any) -> st.SearchStrategy[Any]:
    """Values of the type that a parameter has, such as nobody should ask for."""
    plain = {
        int: st.integers() | st.sampled_from((0, -1, 1, 2**31, 2**63)),
        float: st.floats() | st.integers(),
        str: WORDS,
        bool: st.booleans(),
        type(None): st.none(),
    }
    if kind in plain:
        return plain[kind]
    if get_origin(kind) in (Sequence, list):
        return st.lists(_values(get_args(kind)[0]), max_size=4)
    return st.one_of(*(_values(one) for one in get_args(kind)))  # of nothing, where it is no union


@st.composite
def asked(draw: Any) -> tuple[str, dict[str, Any]]:
    """An experiment, and one or two of its parameters."""
    kind = draw(st.sampled_from(sorted(registry.names())))
    hints = get_type_hints(registry.find(kind).function)
    free = sorted(
        name for name in hints if name not in ("run", "return") and not _values(hints[name]).is_empty
    )
    assume(free)
    chosen = draw(st.lists(st.sampled_from(free), min_size=1, max_size=2, unique=True))
    return kind, {name: draw(_values(hints[name])) for name in chosen}


@cases(100, asked())
def test_a_parameter_is_used_or_refused_before_anything_is_measured(
    wanted: tuple[str, dict[str, Any]],
) -> None:
    kind, parameters = wanted

    def begin(run: Run) -> None:
        raise Begun

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Run, "begin", begin)
        with contextlib.suppress(SchedLabError, Begun):
            registry.find(kind)(profile="tiny", progress=False, save=False, **parameters)
