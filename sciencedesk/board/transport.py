"""Requests that leave in one piece.

KAlgebra's and Celestia's state servers take what one `recv` returns for the whole request.  With head and
body in two segments 30-55 % of the posts to them time out, in one segment none of 600.
"""

from __future__ import annotations

from typing import Any

import httpcore
import httpx


class _Stream(httpcore.NetworkStream):
    """Collects what is written, and sends it when an answer is awaited."""

    def __init__(self, stream: httpcore.NetworkStream):
        self._stream, self._written = stream, bytearray()

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._written += buffer

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._written:
            waiting, self._written = bytes(self._written), bytearray()
            self._stream.write(waiting, timeout)
        return self._stream.read(max_bytes, timeout)

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


class _Backend(httpcore.SyncBackend):
    def connect_tcp(self, *address: Any, **options: Any) -> httpcore.NetworkStream:
        return _Stream(super().connect_tcp(*address, **options))


class OneSegment(httpx.BaseTransport):
    """A connection for each request; the whole answer is read.

    httpx.ConnectError and httpx.ConnectTimeout mean that nothing was sent; httpx.TransportError that
    something may have been.
    """

    def __init__(self) -> None:
        self._pool = httpcore.ConnectionPool(max_keepalive_connections=0, network_backend=_Backend())

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = httpcore.URL(
            scheme=request.url.raw_scheme,
            host=request.url.raw_host,
            port=request.url.port,
            target=request.url.raw_path,
        )
        sent = {"headers": request.headers.raw, "content": request.read(), "extensions": request.extensions}
        try:
            answer = self._pool.request(request.method, url, **sent)
        except httpcore.ConnectTimeout as error:
            raise httpx.ConnectTimeout(str(error)) from error
        except httpcore.ConnectError as error:
            raise httpx.ConnectError(str(error)) from error
        except httpcore.TimeoutException as error:
            raise httpx.ReadTimeout(str(error)) from error
        except (httpcore.NetworkError, httpcore.ProtocolError) as error:
            raise httpx.TransportError(f"{type(error).__name__}: {error}") from error
        return httpx.Response(
            answer.status, headers=answer.headers, content=answer.content, extensions=answer.extensions
        )

    def close(self) -> None:
        self._pool.close()
