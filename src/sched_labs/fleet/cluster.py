"""The connection to a Dask cluster, and which of its workers are on which machine.

A worker is asked by text: the source of `greeting.py` and a question in JSON go there, JSON comes back.  So a
scheduler and a worker need nothing of ours to take a question, and a worker without sched-labs can say so.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import shutil
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core import jsontext
from ..core.errors import ParameterError, SchedLabError
from ..core.version import __version__

if TYPE_CHECKING:
    from distributed import Client, Future, LocalCluster

PACKAGE = Path(__file__).resolve().parents[1]
CONNECT_S = 10.0
# A terminal's Ctrl-C reaches the worker, too, which is ended with the cluster and says nothing of its own.
_DEAF = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
LARGEST_ANSWER = 64 * 1024 * 1024
_CALL = "(names := {}, exec(source, names), names['answer'](question))[-1]"


def _dask() -> Any:
    try:
        import distributed
    except ImportError:
        raise ParameterError(
            "Many machines need Dask's `distributed`, which is not installed.",
            "pip install 'sched-labs[fleet]'",
        ) from None
    return distributed


def security(ca: Path | None, certificate: Path | None, key: Path | None) -> Any:
    """Dask's TLS from files; None where no file is named, and then Dask's own configuration counts.

    Raises ParameterError where one of the three is missing.
    """
    if not (ca or certificate or key):
        return None
    for path in (ca, certificate, key):
        if not path or not path.is_file():
            raise ParameterError(
                f"There is no file {path}." if path else "TLS takes three files.",
                "Name --tls-ca, --tls-cert and --tls-key.",
            )
    return _dask().Security(
        tls_ca_file=str(ca),
        tls_client_cert=str(certificate),
        tls_client_key=str(key),
        require_encryption=True,
    )


class Cluster:
    """A cluster that answers."""

    def __init__(self, client: Client, address: str, safety: Any, local: LocalCluster | None = None) -> None:
        self.client, self.address, self.safety, self.local = client, address, safety, local

    @property
    def dashboard(self) -> str:
        """Where Dask shows what the cluster does; "" where it does not."""
        try:
            return str(self.client.dashboard_link or "")
        except (OSError, RuntimeError, ValueError, KeyError):
            return ""

    def workers(self) -> dict[str, float]:
        """Address -> when the scheduler last heard of it, by the scheduler's clock.

        Raises ConnectionError where the scheduler is gone.
        """
        if self.client.status != "running":
            raise ConnectionError("the scheduler is gone")
        try:
            known = self.client.scheduler_info(n_workers=-1)["workers"]
        except Exception as error:  # Dask raises what its loop was doing: CommClosedError, TimeoutError ...
            raise ConnectionError("the scheduler does not answer") from error
        return {address: float(about.get("last_seen", 0)) for address, about in known.items()}

    def ask(self, worker: str, question: dict[str, Any]) -> Future:
        """Put a question to one worker; `heard` reads its answer."""
        source = (PACKAGE / "fleet" / "greeting.py").read_text(encoding="utf-8")
        text = json.dumps(question | {"version": __version__})
        given = {"source": source, "question": text}
        try:
            return self.client.submit(eval, _CALL, given, workers=[worker], pure=False, retries=0)
        except Exception as error:  # a client whose scheduler has gone in this moment
            raise ConnectionError("the scheduler takes no question") from error

    def reconnect(self, patience_s: float) -> None:
        """Find the scheduler again.  Raises SchedLabError when the patience is over."""
        with contextlib.suppress(Exception):
            self.client.close(timeout=1)
        end = time.monotonic() + patience_s
        while True:
            try:
                self.client = _client(self.address, self.safety, 2.0)
                return
            except SchedLabError:
                if time.monotonic() > end:
                    raise
                time.sleep(1.0)

    def install(self, within_s: float = 120.0) -> None:
        """Bring this sched-labs to every worker, by Dask's own plugin.  Their nannies restart them.

        What sched-labs itself needs (numpy, pandas, a C compiler) has to be there.
        """
        from distributed.diagnostics.plugin import UploadDirectory

        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "sched-labs-brought"
            shutil.copytree(
                PACKAGE, place / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__", "*.pyc")
            )
            self.client.register_plugin(UploadDirectory(str(place), update_path=True, skip_words=(".git",)))
        self.client.restart(timeout=within_s)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.client.close(timeout=2)
        if self.local:
            with contextlib.suppress(Exception):
                self.local.close(timeout=5)


def heard(future: Future) -> dict[str, Any]:
    """What a worker said.  Raises SchedLabError where that is no answer."""
    if future.status != "finished":
        # The exception of another machine is not looked at: its text would have to be unpickled.
        raise SchedLabError(f"Its worker did not answer: Dask says {future.status}.")
    try:
        said = future.result(timeout=30)
        if not isinstance(said, str) or len(said) > LARGEST_ANSWER:
            raise ValueError("no text, or too long")
        found = jsontext.parse(said)
        if not isinstance(found, dict):
            raise ValueError("no object")
    except ValueError as error:
        raise SchedLabError(f"Its worker gave no answer: {error!s:.100}.") from None
    except Exception as error:  # whatever Dask has for a result that went with its worker
        raise SchedLabError(f"Its worker's answer was lost ({type(error).__name__}).") from None
    return found


@contextlib.contextmanager
def connect(address: str | None = None, safety: Any = None) -> Iterator[Cluster]:
    """A cluster: the one whose scheduler listens there, else one worker on this machine.

    Raises ParameterError without `distributed` and for what is no address, SchedLabError where none answers.
    """
    dask = _dask()
    with _quiet():
        local = None
        if address is None:
            local = dask.LocalCluster(
                n_workers=1, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0",
                silence_logs=logging.CRITICAL, preload=[_DEAF],
            )  # fmt: skip
            address = str(local.scheduler_address)
        try:
            cluster = Cluster(_client(address, safety, CONNECT_S), address, safety, local)
        except BaseException:
            if local:
                local.close()
            raise
        try:
            yield cluster
        finally:
            cluster.close()


def _client(address: str, safety: Any, timeout_s: float) -> Client:
    remedy = "Give the scheduler's address as it says it, such as tcp://192.0.2.7:8786."
    try:
        _greet(address, safety, timeout_s)
        made: Client = _dask().Client(
            address, security=safety, timeout=timeout_s, set_as_default=False, name="sched-labs"
        )
        return made
    except (ValueError, TypeError) as error:
        what = f"{address!r:.80} is no address of a scheduler: {error!s:.120}."
        raise ParameterError(what, remedy) from None
    except OSError as error:  # TimeoutError and Dask's CommClosedError among them
        why = f": {error!s:.120}" if str(error) else ""
        raise SchedLabError(f"No Dask scheduler answers at {address:.80}{why}.", remedy) from None


def _greet(address: str, safety: Any, timeout_s: float) -> None:
    """See that a scheduler answers there, before a client is made: one that finds none is long in closing.

    Raises ValueError for what is no address, OSError where none answers in time.
    """
    dask = _dask()

    async def ask() -> str:
        arguments = (safety or dask.Security()).get_connection_args("client")
        async with dask.rpc(address, connection_args=arguments, timeout=timeout_s) as one:
            return str((await one.identity())["type"])

    # In a thread: a notebook's own has a loop that runs.
    with ThreadPoolExecutor(1) as thread:
        try:
            said = thread.submit(lambda: asyncio.run(asyncio.wait_for(ask(), timeout_s))).result()
        except (OSError, ValueError):
            raise
        except Exception as error:  # whatever Dask makes of a program that speaks something else
            raise OSError(f"no scheduler: {error!s:.100}") from None
    if said != "Scheduler":
        raise OSError(f"this is a {said:.40}")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Dask logs every lost connection, with a traceback; here each is a line of its own kind."""
    named = [name for name in logging.root.manager.loggerDict if name.startswith("distributed")]
    loggers = [logging.getLogger(name) for name in (*named, "tornado.application", "asyncio")]
    before = [one.level for one in loggers]
    for one in loggers:
        one.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        for one, level in zip(loggers, before, strict=True):
            one.setLevel(level)
