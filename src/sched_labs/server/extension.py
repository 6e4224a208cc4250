"""The book's pages, the reader's predictions and progress, behind the Jupyter server's login.

Pages share their origin with the server's API, so that a script in a page could do all that the reader can.
Hence the content policy: scripts, pictures and connections come from this server and from nowhere else, and
no other site may frame a page. Every request needs the login; a POST also needs the `_xsrf` cookie.
"""

from __future__ import annotations

import ipaddress
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jupyter_server.auth.decorator import authorized
from jupyter_server.base.handlers import APIHandler, JupyterHandler
from jupyter_server.utils import url_path_join
from tornado import web
from tornado.ioloop import PeriodicCallback
from traitlets import Bool, Unicode
from traitlets.config import Configurable

from .. import labs
from ..core import store
from ..core.errors import ParameterError, SchedLabError
from ..incidents import board, desk

if TYPE_CHECKING:
    from ..book.behind import Behind

measuring: Behind | None = None  # what measures chapters behind this server, in the same process
_LOOK_EVERY_MS = 500
BODY_LIMIT = 4096  # bytes; a prediction has under two hundred

_POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self' 'unsafe-inline'",  # the theme starts itself with inline scripts
        "style-src 'self' 'unsafe-inline'",
        "img-src 'self' data:",
        "font-src 'self' data:",
        "object-src 'none'",
        "base-uri 'self'",
        "form-action 'self'",
        "frame-ancestors 'self'",
    )
)


class SchedLabsBook(Configurable):
    """Settings of the extension, as `SchedLabsBook.<name>` in a Jupyter configuration."""

    html_dir = Unicode("", help="Folder with the finished pages.").tag(config=True)
    announce = Bool(False, help="Print the addresses when the server is ready.").tag(config=True)
    forwarded = Bool(False, help="The book's own virtual machine: its host forwards a port.").tag(config=True)


class BookHandler(JupyterHandler, web.StaticFileHandler):
    """Finished pages, for the logged-in reader only."""

    auth_resource = "contents"

    @property
    def content_security_policy(self) -> str:
        return _POLICY

    def check_xsrf_cookie(self) -> None:
        """Let a page's fonts come: JupyterHub asks for the token when one reads, too, and a font has none.

        Browsers write that header themselves, and no script can.
        """
        if self.request.headers.get("Sec-Fetch-Dest") != "font":
            super().check_xsrf_cookie()

    @web.authenticated
    @authorized
    async def get(  # type: ignore[override]
        self, path: str, include_body: bool = True
    ) -> None:
        """Send a page or one of its parts."""
        if path.endswith(("/", ".html")) or not path:
            self.xsrf_token  # noqa: B018 - reading it sets the cookie that a page needs for its POSTs
            # Tells a page that this server stands behind it, and where the server's own addresses begin.
            place = url_path_join(self.base_url, "book/")
            if self.settings["sched_labs_runs"]:
                self.set_cookie("sched-labs", quote(self.base_url, safe=""), path=place)
            else:
                self.clear_cookie("sched-labs", path=place)
        await web.StaticFileHandler.get(self, path, include_body)

    @web.authenticated
    @authorized
    async def head(self, path: str) -> None:  # type: ignore[override]
        """Answer as GET does, without the body."""
        await web.StaticFileHandler.get(self, path, include_body=False)

    def set_extra_headers(self, path: str) -> None:
        """Have browsers ask again each time: the book is built anew while the server runs."""
        self.set_header("Cache-Control", "no-cache")

    def compute_etag(self) -> str | None:
        """Nothing: Tornado keeps a digest for good, and the page may be another one; its time tells."""
        return None

    def validate_absolute_path(self, root: str, absolute_path: str) -> str | None:
        """Refuse hidden files, and say what to do when there is no book; the parent refuses the outside."""
        if not (Path(root) / "index.html").is_file():
            raise web.HTTPError(404, "The book is not built yet: run `make book`, then load this page again.")
        found = super().validate_absolute_path(root, absolute_path)
        if found is not None and any(part.startswith(".") for part in Path(found).relative_to(root).parts):
            raise web.HTTPError(404)
        return found


class PredictionsHandler(APIHandler):
    """The reader's predictions, kept in the reader's data folder."""

    auth_resource = "contents"

    @web.authenticated
    @authorized
    def get(self) -> None:
        """Return all of them: `{question id: {"value": number or word, "unit": str, ...}}`."""
        self._answer(store.predictions)

    @web.authenticated
    @authorized
    def post(self) -> None:
        """Keep one: `{"question": str, "value": number or word, "unit": str}`; a value of null forgets it."""
        if len(self.request.body) > BODY_LIMIT:
            raise web.HTTPError(413, "A prediction is shorter than that.")
        sent = self.get_json_body()
        if not isinstance(sent, dict):
            raise web.HTTPError(400, "Send an object with question, value and unit.")
        question, value, unit = sent.get("question"), sent.get("value"), sent.get("unit")
        if not (isinstance(question, str) and isinstance(unit, str)):
            raise web.HTTPError(400, "question and unit are words.")
        if value is None:
            return self._answer(lambda: store.drop_prediction(question))
        if isinstance(value, bool) or not isinstance(value, str if unit == "word" else int | float):
            raise web.HTTPError(400, "value is a number, or one of the question's words.")
        self._answer(lambda: store.save_prediction(question, value, unit))

    def _answer(self, ask: Any) -> None:
        try:
            said = ask()
        except (ParameterError, OverflowError) as error:
            raise web.HTTPError(400, str(error)) from error
        except SchedLabError as error:
            raise web.HTTPError(500, str(error)) from error
        self.finish(json.dumps(said))


class MeasuringHandler(APIHandler):
    """How the chapters stand that are measured behind the book."""

    auth_resource = "contents"

    @web.authenticated
    @authorized
    def get(self) -> None:
        """Return what `book.behind.Board` tells, or an empty object where nothing is measured."""
        self.finish(json.dumps(measuring.standing() if measuring else {}))


class ProgressHandler(APIHandler):
    """How far the reader has come with the labs."""

    auth_resource = "contents"

    @web.authenticated
    @authorized
    def get(self) -> None:
        """Return a list, one object per lab, as `labs.progress` has them in its rows."""
        try:
            table = labs.progress()
        except SchedLabError as error:
            raise web.HTTPError(500, str(error)) from error
        self.finish(json.dumps(table.to_dict("records")))


class IncidentHandler(APIHandler):
    """The dashboard of the incident that runs on this machine."""

    auth_resource = "contents"

    @web.authenticated
    @authorized
    def get(self) -> None:
        """Return what `incidents.board.facts` says, or `{"none": why there is none}`."""
        try:
            said = board.facts(desk.running())
        except SchedLabError as error:
            said = {"none": str(error)}
        self.finish(json.dumps(said))


def load(server: Any) -> None:
    """Add the handlers to a Jupyter server."""
    settings = SchedLabsBook(parent=server)
    base = server.web_app.settings["base_url"]
    pages = {"path": str(Path(settings.html_dir).resolve()), "default_filename": "index.html"}
    server.web_app.add_handlers(
        ".*$",
        [
            (url_path_join(base, "book"), web.RedirectHandler, {"url": url_path_join(base, "book/")}),
            (url_path_join(base, "book", "(.*)"), BookHandler, pages),
            (url_path_join(base, "sched-labs", "predictions"), PredictionsHandler),
            (url_path_join(base, "sched-labs", "progress"), ProgressHandler),
            (url_path_join(base, "sched-labs", "incident"), IncidentHandler),
            (url_path_join(base, "sched-labs", "measuring"), MeasuringHandler),
        ],
    )
    server.web_app.settings["sched_labs_runs"] = runs_code(
        server.ip, server.identity_provider.token, settings.forwarded
    )
    if measuring:
        PeriodicCallback(lambda: _give_way(server, measuring), _LOOK_EVERY_MS).start()
    if settings.announce:
        # An exception, as Python makes of Ctrl-C, is lost where it arises in a callback that may raise none.
        signal.signal(signal.SIGINT, lambda number, frame: server.stop(from_signal=True))
        server.io_loop.call_later(0, _announce, server)


def runs_code(ip: str, key: str, forwarded: bool) -> bool:
    """Whether pages may run their cells, and what a reader writes into them.

    Only for who has a key, on this computer or behind the forwarded port of the book's own virtual machine.
    A book that is served to others is for reading, and measures on nobody's machine.
    """
    try:
        alone = ipaddress.ip_address(ip).is_loopback
    except ValueError:
        alone = ip == "localhost"
    return bool(key) and (alone or forwarded)


def _give_way(server: Any, measuring: Behind) -> None:
    """What a reader runs, on a page or in JupyterLab, goes before the next cell of a chapter."""
    states = {kernel["execution_state"] for kernel in server.kernel_manager.list_kernels()}
    measuring.reader_runs("busy" in states)


def _announce(server: Any) -> None:
    token = server.identity_provider.token
    key = f"?token={token}" if token else ""
    where = (server.custom_display_url or f"http://{server.ip}:{server.port}") + server.base_url
    alone = ipaddress.ip_address(server.ip).is_loopback  # not in a virtual machine with a forwarded port
    reach = "Only this computer reaches it, and only" if alone else "It is reached only"
    print(
        f"\n  The book:    {where}book/{key}\n"
        f"  JupyterLab:  {where}lab{key}\n\n"
        f"  {reach} with the key in the address. Ctrl-C stops it.\n",
        flush=True,
    )
