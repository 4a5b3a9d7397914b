"""The page while its runs go on: served to this machine alone, made anew from the journals when somebody asks for it."""

from __future__ import annotations

import hashlib
import re
import sys
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from hrnn.errors import UserError, words_of
from hrnn.report.page import PLOTLY, as_bytes, plotly_script

HOST = "127.0.0.1"
MADE = re.compile(r'<p class="made".*?</p>')  # the time is no change


class Server(ThreadingHTTPServer):
    """make: the page as it is now"""

    daemon_threads = True
    allow_reuse_address = True  # a port of a server that has just ended is free

    def __init__(self, port: int, make: Callable[[], str]):
        try:
            super().__init__((HOST, port), Handler)
        except OSError as error:
            raise UserError(
                f"--port is {port}, which cannot be had ({error.strerror or error}); give another, or 0 for any"
            ) from None
        self.make, self.lock = make, threading.Lock()
        self.script = plotly_script().encode()

    @property
    def address(self) -> str:
        return f"http://{HOST}:{self.server_port}/"

    def page(self) -> tuple[bytes, str]:
        """The page, and a tag that changes when it does; one at a time, as readers share what they have read."""
        with self.lock:
            text = self.make()
        return as_bytes(text), f'"{hashlib.sha256(as_bytes(MADE.sub("", text))).hexdigest()[:32]}"'

    def handle_error(self, request: object, client_address: object) -> None:
        """A browser that went away is no news; anything else is one line."""
        error = sys.exception()
        if error is not None and not isinstance(error, ConnectionError):
            print(f"the page could not be sent ({words_of(error)})", file=sys.stderr, flush=True)


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        # A page of another site could have its own name point to this machine; it would still send that name.
        name = (self.headers.get("Host") or "").partition(":")[0]
        if name not in (HOST, "localhost"):
            self.send_error(HTTPStatus.FORBIDDEN)
        elif self.path == f"/{PLOTLY}":
            self._send(self.server.script, "text/javascript", "max-age=86400")
        elif self.path.partition("?")[0] == "/":
            content, tag = self.server.page()
            if self.headers.get("If-None-Match") == tag:
                self.send_response(HTTPStatus.NOT_MODIFIED)
                self.send_header("ETag", tag)
                self.end_headers()
            else:
                self._send(content, "text/html; charset=utf-8", "no-cache", tag)
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _send(self, content: bytes, kind: str, cache: str, tag: str = "") -> None:
        self.send_response(HTTPStatus.OK)
        for header, value in (("Content-Type", kind), ("Content-Length", str(len(content))), ("Cache-Control", cache)):
            self.send_header(header, value)
        if tag:
            self.send_header("ETag", tag)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nobody reads what every request was."""
