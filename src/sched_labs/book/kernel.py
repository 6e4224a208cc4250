"""The kernel in which chapters run, one after the other: to start one takes as long as a short chapter."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from types import TracebackType
from typing import Any

from . import shipped

_STOP_LIMIT_S = 15


class Kernel:
    """A kernel while the `with` lasts.  It begins with the first chapter, and has forgotten each by the next.

    One in which a cell failed is ended, because the failure holds what it was in the middle of.
    """

    def __init__(self) -> None:
        self.manager = _manager()
        self._thread = ThreadPoolExecutor(1)  # its sockets belong to the loop of one thread

    def __enter__(self) -> Kernel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.submit(self._end).result()
        self._thread.shutdown()

    def run(self, client: Any, around: Mapping[str, str]) -> None:
        """Run the client's notebook with these variables in the environment.

        Ctrl-C stops its cell as a stop button does, so that experiments clean up.
        """
        # nbclient answers Ctrl-C by killing the kernel, then trips over it; only the main thread hears of it.
        running = self._thread.submit(self._run, client, around)
        try:
            running.result()
        except KeyboardInterrupt:
            self._stop(running)
            raise  # what the stopped notebook itself said is of no interest any more

    def _run(self, client: Any, around: Mapping[str, str]) -> None:
        from nbclient.util import run_sync

        def silently(code: str) -> None:
            run_sync(client.kc.execute_interactive)(code, silent=True, timeout=_STOP_LIMIT_S)

        if not self.manager.has_kernel:
            client.start_new_kernel(env={**os.environ, "MPLBACKEND": "agg"})
        try:
            client.start_new_kernel_client()
            silently(f"import {shipped.__name__} as _shipped; _shipped.begin({dict(around)!r})")
            client.execute()
            silently("%reset -f")
        except BaseException:
            self._end()
            raise
        finally:
            if client.kc:
                client.kc.stop_channels()

    def _end(self) -> None:
        from nbclient.util import run_sync

        if self.manager.has_kernel:
            run_sync(self.manager.shutdown_kernel)()
            self.manager = _manager()  # one that has ended its kernel begins no other

    def _stop(self, running: Future[None]) -> None:
        for how in (signal.SIGINT, signal.SIGKILL):
            pid = getattr(self.manager.provisioner, "pid", None)
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, how)
            if wait([running], _STOP_LIMIT_S).done:
                return


def _manager() -> Any:
    from jupyter_client.manager import AsyncKernelManager

    return AsyncKernelManager(kernel_name="python3")
