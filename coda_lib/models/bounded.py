"""An HTTP client for servers that nobody vouches for: a deadline on each request, a bound on its answer.

httpx has a time-out for each piece of an answer, so that a server which sends a byte now and then is waited
for without end.  Redirects are not followed, and compressed bodies stay compressed: a few kilobytes can
become gigabytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx

LONGEST_ANSWER = 16_000_000  # bytes of a body; the HTTP parser bounds the headers


class BoundedClient(httpx.AsyncClient):
    """A client whose requests take at most `deadline_s`, from the first byte sent to the last one read.

    httpx.TimeoutException after that; httpx.ReadError for a body of more than `LONGEST_ANSWER` bytes.
    """

    def __init__(self, deadline_s: float) -> None:
        super().__init__(follow_redirects=False, timeout=deadline_s, headers={"Accept-Encoding": "identity"})
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
