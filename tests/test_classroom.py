"""The class board: cards, folders of them, and the collector that takes them over a network."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import socketserver
import struct
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from html import unescape
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from waiting import wait_until

from sched_labs import claims, cli
from sched_labs.classroom import board, bounded, card, collector, wall
from sched_labs.core import result
from sched_labs.core.errors import ParameterError, ResultError, SchedLabError
from sched_labs.fleet import report


def made_up(number: int = 0, **machine: Any) -> dict[str, Any]:
    """A CONSTRUCTED card; nobody measured it."""
    facts = dict.fromkeys(card.MACHINE) | {"kernel": f"6.{number}", "cpus": 2, "arch": "x86_64"} | machine
    entry = {
        "kind": "context_switch.matrix", "recorded_at": "2026-01-01T00:00:00+00:00", "profile": "quick",
        "flags": 0,
        "numbers_ns": {"pipe switch, same cpu": 1000.0 + number}, "claims": {"000-007": claims.HOLDS},
    }  # fmt: skip
    return {"format": card.FORMAT, "version": card.VERSION, "machine": facts, "results": [entry]}


def data_of(one: dict[str, Any]) -> bytes:
    return card.text(one).encode()


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


@pytest.fixture
def measured(data: Path) -> Path:
    """A reader's data folder with one result: the recorded one."""
    found = result.recorded("context_switch.matrix")
    assert found
    found.save()
    return data


# ---- cards ----


def test_a_card_holds_numbers_and_verdicts_and_no_name(measured: Path) -> None:
    one = card.make()
    assert card.parse(data_of(one)) == one
    [entry] = one["results"]
    run = result.latest("context_switch.matrix")
    assert run
    cells = run.summary().set_index(["mechanism", "between", "placement"])
    assert entry["numbers_ns"]["pipe switch, same cpu"] == pytest.approx(
        float(cells.net_per_switch_ns["pipe", "threads", "same_cpu"])
    )
    assert entry["claims"] == {c.id: v.outcome for c, v in claims.judge(run)}
    said = card.text(one)
    assert socket.gethostname() not in said and str(Path.home()) not in said
    assert len(said) < card.LARGEST_BYTES


def test_the_board_says_what_the_odd_ones_of_a_room_have_in_common() -> None:
    room = {f"card-{number}": made_up(number % 9) for number in range(30)}
    for number in (3, 8, 13, 21, 27):
        slow = made_up(number % 9, hypervisor="VirtualBox")
        slow["results"][0]["numbers_ns"] = {"pipe switch, same cpu": 3000.0 + number}
        room[f"card-{number}"] = slow
    assert "5 machines with hypervisor VirtualBox" in board.page(room, {})
    assert "No trait stands out" in board.page(dict(list(room.items())[:3]), {})


def test_without_a_measurement_there_is_nothing_to_share(data: Path) -> None:
    with pytest.raises(ResultError, match="nothing to share"):
        card.make()


def broken(change: Any) -> bytes:
    one = made_up()
    change(one)
    return json.dumps(one).encode()


BROKEN = [
    (b"{", "not JSON"),
    (b"\xff\xfe", "not JSON"),
    (b"[" * 100_000, "larger than"),
    (b"[" * 50_000, "not JSON"),
    (b"[]", "no card"),
    (broken(lambda c: c.update(version=2)), "version 2"),
    (broken(lambda c: c["machine"].update(hostname="here")), "its machine"),
    (broken(lambda c: c["machine"].update(kernel="x" * 200)), "a fact of its machine"),
    (broken(lambda c: c["machine"].update(kernel=["x"])), "a fact of its machine"),
    (broken(lambda c: c.update(results=[])), "list of results"),
    (broken(lambda c: c.update(results=[1])), "a result in it"),
    (broken(lambda c: c["results"][0].update(kind=7)), "no kind"),
    (broken(lambda c: c["results"][0].update(numbers_ns={"largest warm-up": "1"})), "a number in it"),
    (broken(lambda c: c["results"][0].update(numbers_ns={"largest warm-up": True})), "a number in it"),
    (broken(lambda c: c["results"][0].update(numbers_ns={"largest warm-up": 1e300})), "a number in it"),
    (broken(lambda c: c["results"][0].update(numbers_ns={"largest warm-up": 10**400})), "a number in it"),
    (broken(lambda c: c["results"][0].update(numbers_ns={"one of my own": 1})), "a number in it"),
    # Of another kind; and so small that a page with an axis for it took five seconds.
    (broken(lambda c: c["results"][0].update(numbers_ns={"largest warm-up": 1})), "a number in it"),
    (
        broken(lambda c: c["results"][0].update(numbers_ns={"pipe switch, same cpu": 5e-324})),
        "a number in it",
    ),
    (broken(lambda c: c["results"][0].update(kind="../../x")), "no kind"),
    (broken(lambda c: c["results"][0].update(recorded_at=7)), "when and how"),
    (broken(lambda c: c["results"][0].update(profile="\x1b[2J")), "when and how"),
    (broken(lambda c: c["results"][0].update(flags=10**9)), "when and how"),
    (broken(lambda c: c["results"][0].update(numbers_ns=[1])), "a number in it"),
    (broken(lambda c: c["results"][0].update(claims={"nobody-said": "holds here"})), "a verdict"),
    (broken(lambda c: c["results"][0].update(claims={"000-007": "true"})), "a verdict"),
    (broken(lambda c: c["results"][0].update(claims={"000-007": ["holds here"]})), "a verdict"),
    (broken(lambda c: c["results"][0].update(claims={"000-007": {}})), "a verdict"),
    (broken(lambda c: c["machine"].update(kernel="\ud800")), "not JSON"),
    (broken(lambda c: c["machine"].update(kernel="a\nb")), "a fact of its machine"),
    (broken(lambda c: c.update(version="9" * 5000)), "version"),
]


@pytest.mark.parametrize(("text", "said"), BROKEN, ids=[said for _, said in BROKEN])
def test_a_damaged_card_is_refused(text: bytes, said: str) -> None:
    with pytest.raises(SchedLabError, match=said) as refused:
        card.parse(text)
    assert len(str(refused.value)) < 200


def test_not_a_number_is_no_number() -> None:
    text = card.text(made_up()).replace("1000.0", "NaN").encode()
    with pytest.raises(SchedLabError, match="no number of JSON"):
        card.parse(text)


def test_a_card_has_one_vote_on_each_claim() -> None:
    """31 cards once gave "holds 30, fails 100": one of them named its kind a hundred times."""
    one = made_up()
    one["results"] *= 2
    with pytest.raises(SchedLabError, match="two results of one kind"):
        card.parse(data_of(one))
    one = made_up()
    foreign = next(c.id for c in claims.all_claims() if c.kind != "context_switch.matrix")
    one["results"][0]["claims"] = {foreign: claims.HOLDS}
    with pytest.raises(SchedLabError, match="a verdict in it"):
        card.parse(data_of(one))
    cards = {f"{n}.json": card.parse(data_of(made_up(n))) for n in range(31)}
    votes = report.verdicts(board.fleet(cards))
    assert (votes.holds + votes.fails + votes.unknown).max() == 31


def test_nothing_that_a_card_does_not_have_is_kept() -> None:
    one = made_up()
    stuffed = made_up() | {"more": ["x"] * 1000}
    stuffed["results"][0] |= {"pages": [[[]]] * 100}
    assert card.parse(data_of(stuffed)) == one
    assert card.name(card.parse(data_of(stuffed))) == card.name(one), "it would be counted twice"


def test_the_fullest_card_is_no_larger_than_a_card_may_be() -> None:
    by_kind = card.known_claims()
    one = made_up() | {
        "machine": dict.fromkeys(card.MACHINE, "\U0001f600" * 120),
        "results": [
            {
                "kind": kind, "recorded_at": "x" * 40, "profile": "x" * 40, "flags": 1000,
                "numbers_ns": dict.fromkeys(card.NUMBERS.get(kind, ()), -999999999999.123),
                "claims": dict.fromkeys(ids, claims.FAILS),
            }
            for kind, ids in by_kind.items()
        ],
    }  # fmt: skip
    sent = json.dumps(one, ensure_ascii=False, separators=(",", ":")).encode()
    assert len(card.text(card.parse(sent))) <= card.LARGEST_BYTES, "what is kept could not be read again"


def test_a_pipe_among_the_cards_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "good.json").write_bytes(data_of(made_up()))
    cards, refused = board.read(tmp_path)
    assert list(cards) == ["good.json"] and list(refused) == ["pipe.json"]


# ---- the board ----


def test_a_folder_of_cards_becomes_a_page(tmp_path: Path) -> None:
    folder = tmp_path / "cards"
    folder.mkdir()
    for number in range(6):
        outcome = claims.FAILS if number < 2 else claims.HOLDS
        one = made_up(number, hypervisor="odd" if number < 2 else "usual")
        one["results"][0]["claims"]["000-007"] = outcome
        (folder / f"{number}.json").write_bytes(data_of(one))
    (folder / "copy.json").write_bytes((folder / "0.json").read_bytes())
    (folder / "broken.json").write_text("{")
    (folder / "large.json").write_text(" " * (card.LARGEST_BYTES + 2))
    (folder / "notes.txt").write_text("not mine to read")
    cards, refused = board.read(folder)
    assert sorted(cards) == [f"{n}.json" for n in range(6)]
    assert refused == {
        "broken.json": refused["broken.json"],
        "copy.json": "it is the same as 0.json.",
        "large.json": refused["large.json"],
    }
    row = report.verdicts(board.fleet(cards)).set_index("id").loc["000-007"]
    assert (row.holds, row.fails, row.unknown) == (4, 2, 0)
    assert row.in_common == "hypervisor odd"
    table = board.frame(cards, "3.json")
    assert list(table.value_ns) == [1000.0 + n for n in range(6)] and table.mine.sum() == 1
    page = board.page(cards, refused, "3.json")
    assert (
        "6 machines" in page and "copy.json" in page and "http" not in page.replace("http://www.w3.org", "")
    )


def test_what_comes_from_a_card_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    one = made_up(kernel=evil)
    page = board.page({"a.json": card.parse(data_of(one))}, {evil: evil})
    assert evil not in page


def test_the_board_says_what_it_cannot_do(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no folder"):
        board.read(tmp_path / "nowhere")
    with pytest.raises(ParameterError, match="no card to show"):
        board.page({}, {})
    with pytest.raises(ParameterError, match="No card has a number"):
        board.strips({})
    without = made_up()
    without["results"][0]["numbers_ns"] = {}
    page = board.page({"a.json": without}, {})
    [said] = [claim.text for claim in claims.all_claims() if claim.id == "000-007"]
    assert "No number was measured" in page and said in unescape(page)


def test_one_damaged_file_of_each_kind_leaves_the_board_to_the_others(tmp_path: Path) -> None:
    for number, (text, _) in enumerate(BROKEN):
        (tmp_path / f"{number}.json").write_bytes(text)
    (tmp_path / "folder.json").mkdir()
    (tmp_path / "nowhere.json").symlink_to(tmp_path / "not-there")
    (tmp_path / "good.json").write_bytes(data_of(made_up()))
    cards, refused = board.read(tmp_path)
    assert list(cards) == ["good.json"] and len(refused) == len(BROKEN) + 2
    assert "1 machine" in board.page(cards, refused)


# ---- the collector ----


@pytest.fixture
def server(tmp_path: Path) -> Iterator[collector.Collector]:
    with collector.Collector(tmp_path / "cards", "127.0.0.1", 0, "4711") as found:
        thread = threading.Thread(target=found.serve_forever)
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def where(server: collector.Collector) -> str:
    return f"127.0.0.1:{server.server_address[1]}"


def test_forty_students_send_at_once_and_none_is_lost(server: collector.Collector) -> None:
    with ThreadPoolExecutor(40) as room:
        names = list(room.map(lambda n: collector.send(made_up(n), where(server), "4711"), range(40)))
    assert len(set(names)) == 40
    cards, refused = board.read(server.folder)
    assert sorted(cards) == sorted(names) and refused == {}


def test_what_is_refused_leaves_nothing_and_breaks_nothing(server: collector.Collector) -> None:
    with pytest.raises(SchedLabError, match="not the code"):
        collector.send(made_up(), where(server), "0000")
    collector.send(made_up(), where(server), "4711")
    with pytest.raises(SchedLabError, match="here already"):
        collector.send(made_up(), where(server), "4711")
    with pytest.raises(SchedLabError, match="damaged"):
        collector.send(made_up(kernel="x" * 200), where(server), "4711")
    with pytest.raises(SchedLabError, match="at most 64 KiB"):
        collector.send({"format": "x" * card.LARGEST_BYTES}, where(server), "4711")
    # A client that promises more than it sends, one that speaks no HTTP, and a look at what else there is.
    for text in (b"POST /card HTTP/1.1\r\nX-Code: 4711\r\nContent-Length: 500\r\n\r\n{", b"\x00\xff\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.server_address[1])) as raw:
            raw.sendall(text)
            raw.shutdown(socket.SHUT_WR)
            assert b" 4" in raw.recv(100) or text[:1] == b"\x00"
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(f"http://{where(server)}/")
    assert len(list(server.folder.iterdir())) == 1
    collector.send(made_up(1), where(server), "4711")


def test_every_kind_of_damage_is_refused_over_the_network(server: collector.Collector) -> None:
    for text, _ in BROKEN:
        request = urllib.request.Request(f"http://{where(server)}/card", text, {"X-Code": "4711"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request, timeout=60)
        assert refused.value.code in (400, 413), text[:80]
        assert refused.value.read()
    assert list(server.folder.iterdir()) == []
    collector.send(made_up(), where(server), "4711")


def test_silence_dripping_and_resets_keep_no_place_from_honest_cards(
    server: collector.Collector, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """An adversary of three kinds holds twice as many connections as there are places."""
    monkeypatch.setattr(bounded, "MOST_AT_ONCE", 64)
    address = ("127.0.0.1", server.server_address[1])
    adversaries = [socket.create_connection(address) for _ in range(128)]
    ended = threading.Event()

    def drip() -> None:
        while not ended.wait(0.05):
            for one in adversaries[::3]:
                with contextlib.suppress(OSError):
                    one.send(b"P")

    dripping = threading.Thread(target=drip)
    dripping.start()
    try:
        for one in adversaries[1::3]:
            one.sendall(b"POST /card HTTP/1.1\r\nX-Code: 4711\r\nContent-Length: 60000\r\n\r\n{")
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            one.close()  # with a reset
        with ThreadPoolExecutor(40) as room:
            list(room.map(lambda n: collector.send(made_up(n), where(server), "4711"), range(40)))
    finally:
        ended.set()
        dripping.join()
        for one in adversaries:
            one.close()
    assert len(board.read(server.folder)[0]) == 40
    assert len(server.connected) <= 64
    said = "".join(capsys.readouterr())
    assert "127.0.0.1" not in said and "Traceback" not in said


def test_a_connection_has_so_many_seconds_in_all(
    server: collector.Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collector, "WAIT_S", 0.5)
    with socket.create_connection(("127.0.0.1", server.server_address[1])) as slow:
        end = time.monotonic() + 20
        with contextlib.suppress(OSError):
            while time.monotonic() < end:
                slow.sendall(b"P")  # each byte in time, and all of them never
                time.sleep(0.1)
        assert time.monotonic() < end, "it may drip for ever"
    assert server.connected == {}


@contextlib.contextmanager
def sends_from(server: collector.Collector, address: str) -> Iterator[Callable[[str], HTTPConnection]]:
    """Send a code with a card from another address, and do not wait for the answer."""
    sent = []

    def send(code: str) -> HTTPConnection:
        port = server.server_address[1]
        sent.append(HTTPConnection("127.0.0.1", port, timeout=60, source_address=(address, 0)))
        sent[-1].request("POST", "/card", card.text(made_up(77)).encode(), {"X-Code": code})
        return sent[-1]

    try:
        yield send
    finally:
        for one in sent:
            one.close()


def waiting(server: collector.Collector) -> int:
    """How many codes from the other address wait for their turn."""
    with server.counting:
        return server.turns.get("127.0.0.2", (None, 0))[1]


def test_who_tries_many_codes_at_once_does_not_see_which_was_right(server: collector.Collector) -> None:
    """The answers to wrong ones come late, but an answer to the right one at once would tell it."""
    with sends_from(server, "127.0.0.2") as send:
        for number in range(30):
            send(f"{number:04d}")
        assert wait_until(lambda: waiting(server) > 20)
        began = time.monotonic()
        send("4711").getresponse()
        assert time.monotonic() - began > 15 * collector.DOUBT_S


def test_a_flood_of_wrong_codes_makes_no_flood_of_threads(
    server: collector.Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bounded, "MOST_AT_ONCE", 64)
    before = threading.active_count()
    with sends_from(server, "127.0.0.2") as send:
        for number in range(500):
            send(f"{number:04d}")
        most = before + 64 + collector.MOST_IN_TURN
        assert wait_until(lambda: threading.active_count() <= most, 20)
        collector.send(made_up(), where(server), "4711")
        monkeypatch.setattr(collector, "DOUBT_S", 0)  # those that still wait need not make us wait
    assert wait_until(lambda: server.turns == {}, 30)


def test_wrong_codes_keep_nobody_else_waiting(server: collector.Collector) -> None:
    with sends_from(server, "127.0.0.2") as send:
        for number in range(60):
            send(f"{number:04d}")
        collector.send(made_up(), where(server), "4711")
        assert waiting(server) > 0, "it waited until all wrong ones had been looked at"
    assert len(board.read(server.folder)[0]) == 1


@pytest.mark.parametrize("length", ["²", "-1", "1e3", "0x10", "9" * 30, "", " ", "1, 1"])
def test_a_length_that_is_none_prints_no_address(
    server: collector.Collector, length: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", server.server_address[1])) as raw:
        raw.sendall(
            f"POST /card HTTP/1.1\r\nX-Code: 4711\r\nContent-Length: {length}\r\n\r\n".encode("latin-1")
        )
        assert raw.recv(100).startswith(b"HTTP/1.0 411")
    assert capsys.readouterr() == ("", "")


class Impostor(socketserver.BaseRequestHandler):
    """Whatever a student's mistyped address may reach: answers with what its server is to say."""

    def handle(self) -> None:
        self.request.recv(1 << 16)
        self.request.sendall(self.server.says)  # type: ignore[attr-defined]


@contextlib.contextmanager
def impostor(says: bytes) -> Iterator[str]:
    with socketserver.TCPServer(("127.0.0.1", 0), Impostor) as server:
        server.says = says  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    "says",
    [
        b"", b"\x00\xff", b"HTTP/1.1 201 OK\r\n\r\n\x1b[2Jgotcha",
        b"HTTP/1.1 201 OK\r\nContent-Length: 9\r\n\r\n../../pwn",
        b"HTTP/1.1 400 No\r\n\r\n\x1b]0;owned\x07" + b"x" * 5000, b"HTTP/1.1 999 \r\n\r\n",
        b"HTTP/1.1 201 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 302 Go\r\nLocation: http://127.0.0.1:1/stolen\r\n\r\n",
        b"HTTP/1.1 201 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n",
    ],
)  # fmt: skip
def test_what_answers_in_the_collectors_place_is_not_believed(says: bytes) -> None:
    with impostor(says) as address, pytest.raises(SchedLabError) as told:
        collector.send(made_up(), address, "4711")
    text = str(told.value)
    assert text.replace("\n", "").isprintable() and len(text) < 600


def test_the_wall_is_not_believed_either() -> None:
    with impostor(b"\x1b]0;owned\x07\r\n\r\n") as address, pytest.raises(SchedLabError) as told:
        wall.tell(address, "blue-7", "0" * 16, {})
    assert str(told.value).replace("\n", "").isprintable()


def test_who_answers_a_byte_at_a_time_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector, "WAIT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as aside:

        def drip() -> None:
            dripping, _ = listening.accept()
            end = time.monotonic() + 20
            with dripping, contextlib.suppress(OSError):
                dripping.sendall(b"HTTP/1.1 400 ")
                while time.monotonic() < end:
                    dripping.sendall(b"x")
                    time.sleep(0.1)

        aside.submit(drip)
        began = time.monotonic()
        with pytest.raises(SchedLabError, match="cannot be reached"):
            collector.send(made_up(), f"127.0.0.1:{listening.getsockname()[1]}", "4711")
        assert time.monotonic() - began < 10


@pytest.mark.parametrize(
    "address",
    [
        "", ":", "[::1", "host:port", "127.0.0.1:99999", "127.0.0.1:-1", "a b", "ftp://127.0.0.1",
        "file:///etc/passwd", "http://", "http:///", "x" * 300, "127.0.0.1:8²", "\x00", "a\nb", "http://[v1.x]/",
    ],
)  # fmt: skip
def test_a_slip_in_the_address_is_told(address: str) -> None:
    with pytest.raises(SchedLabError, match="cannot be reached"):
        collector.send(made_up(), address, "4711")


def test_a_code_that_is_none_is_told(server: collector.Collector) -> None:
    for code in ("", "€", "a\r\nX: y", "\x00"):
        with pytest.raises(SchedLabError):
            collector.send(made_up(), where(server), code)


def test_the_card_and_its_code_go_through_no_proxy(
    server: collector.Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    with impostor(b"HTTP/1.1 403 I am a proxy\r\n\r\nthank you") as proxy:
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
            monkeypatch.setenv(name, f"http://{proxy}")
        monkeypatch.delenv("no_proxy", raising=False)
        collector.send(made_up(), where(server), "4711")


@pytest.mark.parametrize(
    ("address", "port"), [("127.0.0.1", 99999), ("127.0.0.1", -1), ("no such host", 0), ("\udcff", 0)]
)
def test_where_nothing_can_listen_is_told(tmp_path: Path, address: str, port: int) -> None:
    with pytest.raises(SchedLabError, match="Nothing can listen"):
        collector.Collector(tmp_path, address, port)


def test_codes_are_tried_one_after_the_other(server: collector.Collector) -> None:
    began = time.monotonic()

    def guess(number: int) -> None:
        with pytest.raises(SchedLabError, match="not the code"):
            collector.send(made_up(), where(server), f"{number:04d}")

    with ThreadPoolExecutor(12) as guessing:
        list(guessing.map(guess, range(12)))
    assert time.monotonic() - began >= 12 * collector.DOUBT_S


def test_a_full_board_and_a_full_disk_are_told(
    server: collector.Collector, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    counts: list[int] = []
    server.arrived = counts.append
    monkeypatch.setattr(collector, "MOST_CARDS", 2)
    for number in range(2):
        collector.send(made_up(number), where(server), "4711")
    with pytest.raises(SchedLabError, match="The board is full"):
        collector.send(made_up(2), where(server), "4711")
    assert counts == [1, 2]

    def full(path: Path, text: str) -> None:
        raise ResultError(f"Cannot write {path}: No space left on device.")

    monkeypatch.setattr(collector, "MOST_CARDS", 3)
    monkeypatch.setattr(collector, "write_text", full)
    with pytest.raises(SchedLabError, match="tell the instructor") as said:
        collector.send(made_up(2), where(server), "4711")
    assert str(server.folder) not in str(said.value)
    assert "No space left" in capsys.readouterr().err


def test_a_collector_that_is_not_there() -> None:
    with pytest.raises(SchedLabError, match="cannot be reached"):
        collector.send(made_up(), "127.0.0.1:1", "4711")


# ---- the command line ----


def test_sharing_shows_first_and_asks(
    measured: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import io

    target = measured / "mine.json"
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert cli.main(["share", "--out", str(target)]) == 1
    assert not target.exists() and '"numbers_ns"' in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    assert cli.main(["share", "--out", str(target)]) == 0
    assert card.parse(target.read_bytes())
    page = measured / "class.html"
    assert cli.main(["class", str(measured), "-o", str(page), "--mine", "mine.json"]) == 0
    text = page.read_text(encoding="utf-8")
    assert "<h1>The class</h1>" in text and "<p>1 machine, 1 kind of experiment." in text
    assert cli.main(["class", str(measured), "-o", str(page), "--mine", "other.json"]) == 2


def test_a_card_of_everything_that_ships_is_no_damaged_one(data: Path) -> None:
    for kind in sorted({claim.kind for claim in claims.all_claims()} | set(card.HEADLINES)):
        if found := result.recorded(kind):
            found.save()
    text = data_of(card.make())
    assert len(card.parse(text)["results"]) > 20 and len(text) < card.LARGEST_BYTES / 2


def test_the_doctor_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", "--for", "workshop"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(("ready", "NOT READY")) and said.count("\n") == 1


# ---- the wall of an incident ----


@pytest.fixture
def a_wall() -> Iterator[wall.Wall]:
    with wall.Wall("127.0.0.1", 0, "blue-7") as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def test_the_wall_counts_how_far_each_player_is(a_wall: wall.Wall) -> None:
    to = f"127.0.0.1:{a_wall.server_address[1]}"
    assert a_wall.text() == "0 began; 0 have the cause, 0 have proved it, 0 have mended it."
    wall.tell(to, "blue-7", "0" * 16, {})
    wall.tell(to, "blue-7", "1" * 16, {"cause_at_s": 80, "score": 40, "given": 3.0})
    wall.tell(to, "blue-7", "1" * 16, {"cause_at_s": 80, "evidence_at_s": 80, "repaired_at_s": 200})
    assert a_wall.text() == "2 began; 1 have the cause, 1 have proved it, 1 have mended it."


def test_the_wall_takes_nothing_else(a_wall: wall.Wall) -> None:
    to = f"127.0.0.1:{a_wall.server_address[1]}"
    for sent in (b"", b"[]", b"{", b'{"player": "me", "steps": []}', b'{"player": 3, "steps": []}',
                 b'{"player": "0000000000000000", "steps": ["score"]}',
                 b'{"player": "0000000000000000", "steps": [[]]}'):  # fmt: skip
        status, said = collector.post(sent, to, "blue-7", wall.Wall.path)
        assert status == 400 and "nothing that a player" in said, sent
    assert collector.post(b"{}", to, "blue-7")[0] == 404, "a card is none of its business"
    assert a_wall.players == {}
    with pytest.raises(SchedLabError, match="refused it: That is not the code"):
        wall.tell(to, "red-7", "0" * 16, {})
    with pytest.raises(SchedLabError, match=r"The wall at .* cannot be reached"):
        wall.tell("127.0.0.1:1", "blue-7", "0" * 16, {})
    a_wall.players = {str(number): set() for number in range(board.MOST_CARDS)}
    with pytest.raises(SchedLabError, match="refused it: The wall is full"):
        wall.tell(to, "blue-7", "0" * 16, {})
