"""An HTTP client for servers that nobody vouches for: a deadline on each whole request and a bound on what
comes back.

httpx has a time-out for each piece of an answer, so that a server which sends a byte now and then is waited
for without end. Redirects are not followed, and compressed bodies stay compressed: a few kilobytes can become
gigabytes.
"""

from __future__ import annotations

import time
from threading import local
from typing import Any

import httpcore
import httpx

LONGEST_ANSWER = 16_000_000  # bytes, with its headers


class BoundedClient(httpx.Client):
    """A client whose requests take at most `deadline_s`, from the first byte sent to the last one read.

    httpx.TimeoutException after that; httpx.ReadError for an answer of more than `LONGEST_ANSWER` bytes.
    """

    def __init__(self, deadline_s: float) -> None:
        super().__init__(follow_redirects=False, timeout=deadline_s, headers={"Accept-Encoding": "identity"})
        self._deadline_s, self._now = (
            deadline_s,
            local(),
        )  # a request is sent and its answer read in one thread
        for transport in filter(
            None, (self._transport, *self._mounts.values())
        ):  # mounts: proxies of the environment
            transport._pool._network_backend = _Backend(transport._pool._network_backend, self._now)

    def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        self._now.until, self._now.left = time.monotonic() + self._deadline_s, LONGEST_ANSWER
        response = super().send(request, stream=True, **options)
        response.headers.pop("content-encoding", None)
        try:
            response.read()
        finally:
            response.close()
        return response


class _Backend(httpcore.NetworkBackend):
    def __init__(self, inner: httpcore.NetworkBackend, now: local) -> None:
        self.inner, self.now = inner, now

    def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, **options: Any
    ) -> httpcore.NetworkStream:
        left = _left(self.now, timeout, httpcore.ConnectTimeout)
        return _Stream(self.inner.connect_tcp(host, port, timeout=left, **options), self.now)

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, **options: Any
    ) -> httpcore.NetworkStream:
        left = _left(self.now, timeout, httpcore.ConnectTimeout)
        return _Stream(self.inner.connect_unix_socket(path, timeout=left, **options), self.now)

    def sleep(self, seconds: float) -> None:
        self.inner.sleep(seconds)


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, now: local) -> None:
        self.inner, self.now = inner, now

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        data = self.inner.read(max_bytes, timeout=_left(self.now, timeout, httpcore.ReadTimeout))
        self.now.left -= len(data)
        if self.now.left < 0:
            raise httpcore.ReadError(f"an answer of more than {LONGEST_ANSWER} bytes")
        return data

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self.inner.write(buffer, timeout=_left(self.now, timeout, httpcore.WriteTimeout))

    def start_tls(self, *given: Any, timeout: float | None = None, **options: Any) -> httpcore.NetworkStream:
        left = _left(self.now, timeout, httpcore.ConnectTimeout)
        return _Stream(self.inner.start_tls(*given, timeout=left, **options), self.now)

    def close(self) -> None:
        self.inner.close()

    def get_extra_info(self, info: str) -> Any:
        return self.inner.get_extra_info(info)


def _left(now: local, timeout: float | None, late: type[Exception]) -> float:
    left = now.until - time.monotonic()
    if left <= 0:
        raise late("timed out")
    return left if timeout is None else min(timeout, left)
