"""An HTTP client for servers that nobody vouches for: a deadline on each request, a bound on its answer.

httpx has a time-out for each piece of an answer, so that a server which sends a byte now and then is waited
for without end.  Redirects are not followed, and compressed bodies stay compressed: a few kilobytes can
become gigabytes.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from ipaddress import ip_address

import httpx

from coda_lib.errors import UserError

LONGEST_ANSWER = 16_000_000  # bytes of a body; the HTTP parser bounds the headers


def uses_proxies(url: str) -> bool:
    """Whether requests to `url` go by the proxies of the environment; those to this machine never do.

    UserError names the variables where httpx cannot read one, or lacks the package for what it says.
    """
    try:
        host = httpx.URL(url).host
    except httpx.InvalidURL as error:
        raise UserError(f"{url} is no address: {error}") from error
    with suppress(ValueError):  # of a name
        if host == "localhost" or ip_address(host).is_loopback:
            return False
    try:
        httpx.Client().close()
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        found = [f"{name}={value}" for name, value in os.environ.items() if name.upper().endswith("_PROXY")]
        raise UserError(f"{url} cannot be reached by the proxy of {', '.join(found)}: {error}") from error
    return True


class BoundedClient(httpx.AsyncClient):
    """A client whose requests take at most `deadline_s`, from the first byte sent to the last one read.

    httpx.TimeoutException after that; httpx.ReadError for a body of more than `LONGEST_ANSWER` bytes.
    """

    def __init__(self, url: str, deadline_s: float) -> None:
        super().__init__(
            follow_redirects=False, timeout=deadline_s, headers={"Accept-Encoding": "identity"},
            trust_env=uses_proxies(url),
        )  # fmt: skip
        self._deadline_s = deadline_s

    async def send(self, request: httpx.Request, *, stream: bool = False, **options) -> httpx.Response:
        try:
            async with asyncio.timeout(self._deadline_s):
                response = await super().send(request, stream=True, **options)
                response.headers.pop("content-encoding", None)
                response.stream = _BoundedStream(response.stream)
                try:
                    await response.aread()
                finally:
                    await response.aclose()
                return response
        except TimeoutError as error:
            raise httpx.ReadTimeout("timed out", request=request) from error


class _BoundedStream(httpx.AsyncByteStream):
    def __init__(self, body: httpx.AsyncByteStream) -> None:
        self.body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        length = 0
        async for chunk in self.body:
            length += len(chunk)
            if length > LONGEST_ANSWER:
                raise httpx.ReadError(f"an answer of more than {LONGEST_ANSWER} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self.body.aclose()
