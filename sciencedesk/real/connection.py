"""Connections to servers on the network of a display."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING

import httpx

from sciencedesk.real.isolation import HOST

if TYPE_CHECKING:
    from sciencedesk.real.display import Display


class Connection(http.client.HTTPConnection):
    """A connection to a server on the display's network."""

    def __init__(self, display: Display, port: int, timeout_s: float):
        super().__init__(HOST, port, timeout_s)
        self._display = display

    def connect(self) -> None:
        self.sock = self._display.connect(self.port)
        self.sock.settimeout(self.timeout)


class Transport(httpx.BaseTransport):
    """The transport of an httpx client for servers on the display's network; one connection a request."""

    def __init__(self, display: Display, timeout_s: float):
        self._display, self._timeout_s = display, timeout_s

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        connection = Connection(self._display, request.url.port or 80, self._timeout_s)
        # in their case, which Stellarium checks
        headers = {name.decode(): value.decode() for name, value in request.headers.raw}
        try:
            connection.request(request.method, request.url.raw_path.decode(), request.read(), headers)
            reply = connection.getresponse()
            kind = reply.getheader("content-type", "")
            return httpx.Response(reply.status, headers={"content-type": kind}, content=reply.read())
        except TimeoutError as error:
            raise httpx.ReadTimeout(str(error)) from error
        except (OSError, http.client.HTTPException) as error:
            raise httpx.NetworkError(str(error)) from error
        finally:
            connection.close()
