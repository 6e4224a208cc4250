"""Start one Jupyter server with the book, JupyterLab and the chapters.

It listens on 127.0.0.1, and each start has a token of its own.  In the reader's virtual machine (`forwarded`)
it listens on the address at which the host's forwarded port arrives, and keeps one token, so that the address
in the host's browser stays good.  `address()` tells it, as `sched-labs url` does.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from ..core import store
from ..core.errors import SchedLabError
from . import desk

if TYPE_CHECKING:
    from ..book.behind import Behind

_SETTINGS = Path(__file__).with_name("lab-settings")


def run(
    html: Path,
    *,
    notebooks: Mapping[str, Path],
    port: int = 8888,
    browser: bool = False,
    forwarded: int | None = None,
    measuring: Behind | None = None,
) -> NoReturn:
    """Serve until Ctrl-C, then end this process.

    `html` holds the finished pages, `notebooks` the chapters by name, of which the reader gets copies.
    `forwarded`: this is a virtual machine, and the reader's browser comes through this port of its host.
    `measuring` measures chapters meanwhile, and ends with the server.
    """
    if not (html / "index.html").is_file():
        raise SchedLabError("There are no pages to serve yet.", "Build them with `make book`.")
    own = store.data_folder()
    for name in desk.lay_out(notebooks, own):
        print(f"You changed {name}: your copy stays, the newer one is beside it: {Path(name).stem}.new.md.")
    # The reader's other Jupyter must neither open this server (a password-less set-up) nor be changed by it.
    os.environ["JUPYTER_CONFIG_DIR"] = str(own / ".jupyter")
    os.environ.pop("JUPYTER_TOKEN", None)
    # Terminals and notebooks in JupyterLab find `sched-labs`, though nobody activated the environment.
    os.environ["PATH"] = os.pathsep.join(
        [str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    )

    from jupyterlab.labapp import LabApp

    from . import extension

    # Started in this process, so that the token stands in no list of processes.
    if forwarded is None:
        given = arguments(html, own, port=port, browser=browser, token=secrets.token_hex(24))
    else:
        token = address(forwarded).rpartition("=")[2]
        given = arguments(html, own, port=port, browser=False, token=token, ip=_arrival())
        given += [
            "--SchedLabsBook.forwarded=True",
            "--ServerApp.port_retries=0",  # another port is not forwarded
            # Only under the name localhost: a site whose name was bent to this machine gets nothing.
            "--ServerApp.allow_remote_access=False",
            f"--ServerApp.custom_display_url=http://localhost:{forwarded}",
        ]
    extension.measuring = measuring
    with measuring or contextlib.nullcontext():
        LabApp.launch_instance(given)
    # The server is down, but a worker thread that it left asleep would keep this process for good. A kernel
    # that was just being started ends with its parent.
    sys.stdout.flush()
    os._exit(0)


def address(forwarded: int | None = None) -> str:
    """Where the book is found from the virtual machine's host, with its key.

    `forwarded` names the host's port; the key is made when there is none yet, and stays.
    Raises SchedLabError where none is kept and no port is named.
    """
    file = store.data_folder() / ".jupyter" / "address"
    kept = file.read_text(encoding="ascii").strip() if file.is_file() else ""
    if forwarded is None and not kept:
        raise SchedLabError(
            "No address is kept here: only the book's own virtual machine keeps one.",
            "`make live` prints its address when it starts.",
        )
    if forwarded is None:
        return kept
    key = kept.rpartition("=")[2] or secrets.token_hex(24)
    named = f"http://localhost:{forwarded}/book/?token={key}"
    if named != kept:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.unlink(missing_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as private:
            private.write(named + "\n")
    return named


def _arrival() -> str:
    """The address that connections through the host's forwarded port arrive at: that of the default route.

    A virtual machine's first network card is behind the host's NAT.  Nothing is sent for this.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address kept for documentation
        except OSError as error:
            raise SchedLabError(
                "This machine has no network route, so no forwarded port can arrive.",
                "Start the virtual machine with its first network card on NAT.",
            ) from error
        return str(probe.getsockname()[0])


def arguments(
    html: Path, own: Path, *, port: int, browser: bool, token: str, ip: str = "127.0.0.1"
) -> list[str]:
    """Return JupyterLab's command line."""
    given = [
        f"--ServerApp.ip={ip}",
        f"--ServerApp.port={port}",
        f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={own}",
        f"--ServerApp.open_browser={browser}",
        "--ServerApp.answer_yes=True",  # Ctrl-C stops it, without a question
        "--ServerApp.log_level=WARN",
        "--LabApp.log_level=WARN",
        "--ServerApp.jpserver_extensions=sched_labs.server=True",
        f"--SchedLabsBook.html_dir={html}",
        "--SchedLabsBook.announce=True",
        "--LabApp.default_url=/book/",
        f"--LabApp.app_settings_dir={_SETTINGS}",
        f"--LabApp.user_settings_dir={own / '.jupyter' / 'user-settings'}",
        f"--LabApp.workspaces_dir={own / '.jupyter' / 'workspaces'}",
        "--LabApp.extension_manager=readonly",  # the other one asks a package index for its list
    ]
    if os.geteuid() == 0:
        given.append("--ServerApp.allow_root=True")
    return given
