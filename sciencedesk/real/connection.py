"""Connections to servers on the network of a display."""

from __future__ import annotations

import http.client
from typing import TYPE_CHECKING

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
