"""Start one Jupyter server on 127.0.0.1 with the book, JupyterLab and the chapters."""

from __future__ import annotations

import os
import secrets
import sys
from pathlib import Path
from typing import NoReturn

from .. import store
from ..errors import SchedLabError
from . import desk

_SETTINGS = Path(__file__).with_name("lab-settings")


def run(html: Path, *, notebooks: Path, port: int = 8888, browser: bool = False) -> NoReturn:
    """Serve until Ctrl-C, then end this process.

    `html` holds the finished pages, `notebooks` the book's chapters, of which the reader gets copies.
    """
    if not (html / "index.html").is_file():
        raise SchedLabError("There are no pages to serve yet.", "Build them with `make book`.")
    own = store.data_folder()
    for name in desk.lay_out(notebooks, own):
        print(f"You changed {name}: your copy stays, the newer one is beside it: {Path(name).stem}.new.md.")
    # The reader's other Jupyter must neither open this server (a password-less set-up) nor be changed by it.
    os.environ["JUPYTER_CONFIG_DIR"] = str(own / ".jupyter")
    os.environ.pop("JUPYTER_TOKEN", None)

    from jupyterlab.labapp import LabApp

    # Started in this process, so that the token stands in no list of processes.
    LabApp.launch_instance(arguments(html, own, port=port, browser=browser, token=secrets.token_hex(24)))
    # The server is down, but a worker thread that it left asleep would keep this process for good. A kernel
    # that was just being started ends with its parent.
    sys.stdout.flush()
    os._exit(0)


def arguments(html: Path, own: Path, *, port: int, browser: bool, token: str) -> list[str]:
    """Return JupyterLab's command line."""
    given = [
        "--ServerApp.ip=127.0.0.1",
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
