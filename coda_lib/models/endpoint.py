"""Chat models behind a server with OpenAI's chat API: vLLM, `transformers serve`, or a provider."""

from __future__ import annotations

import asyncio
import base64
import json
import os
from collections.abc import Coroutine, Sequence
from functools import cache, cached_property
from pathlib import Path
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any

import openai

from coda_lib.errors import UserError
from coda_lib.models.bounded import BoundedClient
from coda_lib.models.chat import Usage
from coda_lib.trajectory import screenshot_png

if TYPE_CHECKING:
    from coda_lib.models.chat import Message, ResizeRule, Sampling


KEY = "CODA_API_KEY"  # the environment variable with the key of served models; KEY_FILE names a file of it
KEY_FILE = "CODA_API_KEY_FILE"
_MOST_TOKENS = 2**40  # of one answer
_STARTING = Lock()  # the event loop


class Refused(UserError):
    """The server answered that it will not do this request, for instance because it is too long."""


class EndpointModel:
    """A served model as a `ChatModel`: many requests side by side, with a deadline and bounded retries each.

    The client retries with backoff what can succeed a second time (no connection, a connection that breaks,
    time-outs, 408, 409, 429 and 5xx); the deadline is that of each whole request.  UserError names the server
    if it does not answer, or with something else; Refused tells what it said. `api_key` is by default that of
    `key_of_environment`.  Several samples of one prompt are the same conversation several times over: their
    seeds differ, and a server such as vLLM computes what they have in common once.
    """

    def __init__(
        self,
        url: str,
        model: str,
        api_key: str | None = None,
        concurrency: int = 8,
        deadline_s: float = 120.0,
        retries: int = 4,
    ):
        self._key = api_key = api_key or key_of_environment() or "none"
        self.name, self.url, self.concurrency = model, url, concurrency
        self._made_of = (url, model, api_key, concurrency, deadline_s, retries)
        self.usage = Usage()
        self._client = openai.AsyncOpenAI(
            base_url=url, api_key=api_key, timeout=deadline_s, max_retries=retries,
            http_client=BoundedClient(url, deadline_s),
        )  # fmt: skip

    def __reduce__(self) -> tuple[Any, ...]:  # into another process, where it has asked nothing yet
        return EndpointModel, self._made_of

    def generate(self, conversations: Sequence[list[Message]], sampling: Sampling, seed: int) -> list[str]:
        """One reply for each conversation, in order; the first that fails ends it."""
        return _wait_for(self._replies(conversations, sampling, seed))

    async def _replies(
        self, conversations: Sequence[list[Message]], sampling: Sampling, seed: int
    ) -> list[str]:
        free = asyncio.Semaphore(self.concurrency)

        async def reply(messages: list[Message], seed: int) -> str:
            async with free:
                return reply_of(await self._complete(messages, sampling, seed))

        asked = [asyncio.create_task(reply(messages, seed + i)) for i, messages in enumerate(conversations)]
        try:
            return await asyncio.gather(*asked)
        finally:
            for task in asked:
                task.cancel()

    def complete(self, messages: list[Message], sampling: Sampling, seed: int) -> dict[str, Any]:
        """The server's whole answer to one conversation (a chat completion as plain data)."""
        return _wait_for(self._complete(messages, sampling, seed))

    async def _complete(self, messages: list[Message], sampling: Sampling, seed: int) -> dict[str, Any]:
        try:
            raw = await self._client.chat.completions.with_raw_response.create(
                model=self.name, messages=[], temperature=sampling.temperature, top_p=sampling.top_p,
                max_tokens=sampling.max_new_tokens, seed=seed,
                # unread: the client would look at every part
                extra_body={"messages": [_sent(message) for message in messages]},
            )  # fmt: skip
        except openai.APIConnectionError as error:  # time-outs, too
            why = f"{error} {error.__cause__ or ''}".strip()
            raise UserError(
                f"{self.url} does not answer ({why}): is the server running, and is the address right?"
            ) from error
        except openai.APIStatusError as error:
            said = error.message if self._key == "none" else error.message.replace(self._key, "(the key)")
            said = _quote(said)
            raise Refused(
                f"{self.url} answered {error.status_code} for model {self.name!r}: {said}"
            ) from error
        try:
            answer, used = read_answer(raw.content)
        except ValueError as error:
            raise UserError(
                f"{self.url} answered with {error}; is the address right (…/v1), and what stands between?"
            ) from error
        self.usage += used
        return answer

    @cached_property
    def resize_rule(self) -> ResizeRule:
        """That of the checkpoint which the model is named after.  UserError if it cannot be found."""
        # takes torch along, which a client does without otherwise
        from coda_lib.models.local import load_processor

        return load_processor(self.name).image_processor.resize_rule


def key_of_environment() -> str:
    """The key in the variable `KEY`, or in the file that `KEY_FILE` names.  UserError if it has none."""
    if (key := os.environ.get(KEY)) or not (name := os.environ.get(KEY_FILE)):
        return key or ""
    try:
        key = Path(name).read_text(encoding="ascii").strip()
    except (OSError, UnicodeError) as error:
        fault = error.strerror if isinstance(error, OSError) else "it is no text of ASCII"
        raise UserError(f"{KEY_FILE}={name}: {fault}") from error
    if not key.isprintable() or not key:
        raise UserError(f"{KEY_FILE}={name}: not one line with a key")
    return key


def _wait_for(answers: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine, run in a thread of its own: this one may have an event loop (Jupyter)."""
    with _STARTING:  # threads that come at the same time get the same loop: a client belongs to one
        loop = _loop()
    running = asyncio.run_coroutine_threadsafe(answers, loop)
    try:
        return running.result()
    finally:
        running.cancel()  # after Ctrl+C nothing more is asked


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """The event loop of all served models of this process."""
    loop = asyncio.new_event_loop()
    Thread(target=loop.run_forever, daemon=True).start()
    return loop


def read_answer(body: bytes) -> tuple[dict[str, Any], Usage]:
    """A chat completion as plain data, and what it cost.  ValueError says what it is instead."""
    try:
        answer = json.loads(body)
        json.dumps(answer, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except UnicodeEncodeError as error:
        raise ValueError(f"text that is no Unicode (a lone surrogate): {_quote(repr(body))}") from error
    except (ValueError, RecursionError) as error:  # also no UTF-8, or a number of thousands of digits
        raise ValueError(f"broken JSON ({_quote(str(error))}): {_quote(repr(body))}") from error
    choices = answer.get("choices") if isinstance(answer, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    if not isinstance(message, dict):
        raise ValueError(f"no chat completion: {_quote(repr(answer))}")
    if not isinstance(message.get("content"), str | None):
        raise ValueError(f"content that is no text: {_quote(repr(message['content']))}")
    usage = answer.get("usage")
    counts = [
        usage.get(f"{side}_tokens") if isinstance(usage, dict) else None for side in ("prompt", "completion")
    ]
    # side fields: where one is not as it should be, the reply counts all the same
    tokens = (n if type(n) is int and 0 <= n < _MOST_TOKENS else 0 for n in counts)
    ended = first.get("finish_reason")
    called = bool(message.get("tool_calls") or message.get("function_call"))
    refused = bool(message.get("refusal")) or ended == "content_filter"
    empty = not (message.get("content") or "").strip() and not refused and not called
    return answer, Usage(1, *tokens, *map(int, (empty, ended == "length", refused, called)))


def reply_of(answer: dict[str, Any]) -> str:
    """The text of a chat completion; empty if it has none."""
    return answer["choices"][0]["message"].get("content") or ""


def _quote(text: str) -> str:
    """What a server said, short, on one line and without what a terminal would obey."""
    shown = "".join(character if character.isprintable() else " " for character in text[:300])
    return shown if len(text) <= 300 else f"{shown} …"


def _sent(message: Message) -> dict[str, Any]:
    """A message in the form of the API: pictures as data URLs."""
    return {"role": message["role"], "content": [_part(part) for part in message["content"]]}


def _part(part: dict[str, Any]) -> dict[str, Any]:
    if part["type"] != "image":
        return part
    data = base64.b64encode(screenshot_png(part["image"])).decode("ascii")
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
