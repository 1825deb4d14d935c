"""Served models, and judging foreign trajectories with one: a small server stands in for vLLM and answers as
it is told.
"""

from __future__ import annotations

import base64
import gzip
import io
import json
import socket
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest
from chat_server import Server, words_of
from PIL import Image
from tiny_models import screen

from coda_lib.errors import UserError
from coda_lib.models.chat import Sampling, image, text
from coda_lib.models.endpoint import EndpointModel, Refused
from coda_study.formats.judging import judge_folder
from coda_study.formats.judgments import load_annotations, score
from coda_study.usage import odd_replies

SAMPLING = Sampling(temperature=0.5, top_p=0.9, max_new_tokens=7)


@pytest.fixture
def serve() -> Iterator:
    """Give a function that starts a server with an answer."""
    started = []

    def start(answer) -> Server:
        server = Server(answer)
        Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        started.append(server)
        return server

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def conversation(words: str, *pictures: Image.Image) -> list[dict]:
    return [{"role": "user", "content": [*map(image, pictures), text(words)]}]


def test_replies_come_in_order_with_pictures_sampling_and_seeds(serve):
    server = serve(lambda asked: (200, words_of(asked).upper()))
    model = EndpointModel(server.url, "some/model", concurrency=4)
    shown = screen(3)
    asked = [conversation(f"plan {i}", shown) for i in range(12)]
    assert model.generate(asked, SAMPLING, 100) == [f"PLAN {i}" for i in range(12)]
    by_words = {words_of(request): request for request in server.asked}
    first = by_words["plan 0"]
    assert (first["model"], first["temperature"], first["top_p"], first["max_tokens"]) == (
        "some/model",
        0.5,
        0.9,
        7,
    )
    assert [by_words[f"plan {i}"]["seed"] for i in range(12)] == list(range(100, 112))
    head, data = first["messages"][0]["content"][0]["image_url"]["url"].split(",")
    assert (
        head == "data:image/png;base64"
        and Image.open(io.BytesIO(base64.b64decode(data))).tobytes() == shown.tobytes()
    )
    assert (model.usage.requests, model.usage.prompt_tokens, model.usage.completion_tokens) == (12, 120, 36)


def test_what_can_succeed_a_second_time_is_asked_again(serve):
    seen: Counter[str] = Counter()

    def answer(asked: dict) -> tuple[int, str]:
        seen[words_of(asked)] += 1
        return (503, "busy") if seen[words_of(asked)] < 3 else (200, "done")

    server = serve(answer)
    assert (
        EndpointModel(server.url, "m").generate([conversation("a")], SAMPLING, 0) == ["done"]
        and seen["a"] == 3
    )
    seen.clear()
    with pytest.raises(Refused, match="answered 503 for model 'm'"):
        EndpointModel(server.url, "m", retries=1).generate([conversation("a")], SAMPLING, 0)
    assert seen["a"] == 2


def test_a_refusal_and_a_dead_server_are_one_clear_message(serve):
    server = serve(lambda asked: (400, "too long"))
    with pytest.raises(Refused, match=r"127.0.0.1:\d+/v1 answered 400 for model 'm': .*too long"):
        EndpointModel(server.url, "m").generate([conversation("a")], SAMPLING, 0)
    assert len(server.asked) == 1
    with pytest.raises(UserError, match="http://127.0.0.1:9/v1 does not answer"):
        EndpointModel("http://127.0.0.1:9/v1", "m", retries=0).generate([conversation("a")], SAMPLING, 0)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b'{"id": "x", "choices": [', "broken JSON"),
        (
            b'{"id": "x", "object": "chat.completion", "choices": []}',
            "no chat completion: .*is the address right",
        ),
        (b"{}", "no chat completion"),
        (b'"hello"', "no chat completion: 'hello'"),
    ],
)
def test_an_answer_that_is_none_is_said(serve, answer, message):
    server = serve(lambda asked: (200, answer))
    with pytest.raises(UserError, match=f"127.0.0.1.*{message}"):
        EndpointModel(server.url, "m").generate([conversation("a")], SAMPLING, 0)


def test_a_server_that_never_answers_is_given_up(serve):
    server = serve(lambda asked: time.sleep(2) or (200, "late"))
    start = time.monotonic()
    with pytest.raises(UserError, match="does not answer .*timed out"):
        EndpointModel(server.url, "m", deadline_s=0.1, retries=1).generate(
            [conversation("a")] * 3, SAMPLING, 0
        )
    assert time.monotonic() - start < 2 and len(server.asked) <= 6


def completion(content: object = "ok", **changes: object) -> bytes:
    choices = [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}]
    return json.dumps({"id": "x", "object": "chat.completion", "choices": choices, **changes}).encode()


HOSTILE = [
    (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9, "broken JSON"), (b"", "broken JSON"), (b"\xff\xfe{",
     "broken JSON"),
    (b"[" * 100_000, "broken JSON"), (b'{"choices": ' * 99_999, "broken JSON"),
     (b'{"a": ' + b"9" * 9_999 + b"}", "broken JSON"),
    (completion(x=[]).replace(b"[]", b"[" * 900 + b"]" * 900), None), (completion(x=float("nan")),
     "broken JSON"),
    (completion("\ud800"), "lone surrogate"), (completion(id="a\udfffb"), "lone surrogate"),
    (completion([{"type": "text", "text": "hi"}]), "content that is no text"), (completion({"a": 1}),
     "content that is no text"),
    (completion(7), "content that is no text"), (completion(True), "content that is no text"),
     (completion(None), None),
    (completion(choices={"0": 1}), "no chat completion"), (completion(choices=[7]), "no chat completion"),
    (completion(choices=[{}]), "no chat completion"), (completion(choices=[{"message": "hi"}]),
     "no chat completion"),
    (completion(choices=None), "no chat completion"), (b"[1]", "no chat completion"), (b"null",
     "no chat completion"),
    *((completion(usage=usage), None) for usage in (None, {}, 7, [1])),
    *((completion(usage={"prompt_tokens": 1, "completion_tokens": n}), None)
      for n in (None, -1, 2.5, "3", True, 10**30, [1])),
    (b"\x1b]0;owned\x07" * 9, "broken JSON"),
    (b"HTTP/1.1 200 OK\r\n\r\n", "broken JSON"), (b"<html><script>alert(1)</script></html>", "broken JSON"),
    (b"data: " + completion(), "broken JSON"), (completion("x" * 20_000_000), "more than 16000000 bytes"),
    (gzip.compress(b" " * 50_000_000 + completion()), "broken JSON"),
]  # fmt: skip


@pytest.mark.parametrize(("answer", "message"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_answer_is_one_clear_error(serve, answer, message):
    server = serve(lambda asked: (200, answer))
    server.headers = {"Content-Encoding": "gzip"} if answer[:2] == b"\x1f\x8b" else {}
    model = EndpointModel(server.url, "m", retries=0)
    if message is None:
        assert model.generate([conversation("a")], SAMPLING, 0)[0] in ("", "ok")
        assert model.usage.requests == 1 and model.usage.completion_tokens == 0
        return
    with pytest.raises(UserError, match=message) as caught:
        model.generate([conversation("a")], SAMPLING, 0)
    said = str(caught.value)
    assert "127.0.0.1" in said and len(said) < 1_200 and said.isprintable()


@pytest.mark.parametrize(
    "variables",
    [
        {"NO_PROXY": "localhost,::1,fd07:b51a:cc66:f0::/64"},  # encode/httpx 3221
        {"ALL_PROXY": "socks5://127.0.0.1:9"},
        {"HTTPS_PROXY": "ftp://127.0.0.1:9"},
    ],
)
def test_a_proxy_that_cannot_be_used_is_named_and_none_is_used_for_this_machine(
    serve, monkeypatch, variables
):
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    server = serve(lambda asked: (200, completion()))
    assert EndpointModel(server.url, "m").generate([conversation("a")], SAMPLING, 0) == ["ok"]
    with pytest.raises(UserError, match=rf"example\.org.*proxy of .*{'='.join(*variables.items())[:20]}"):
        EndpointModel("http://example.org/v1", "m")


@pytest.mark.parametrize("url", ["http://300.1.1.1/v1", "http://[::1/v1"])
def test_what_is_no_address_is_one_clear_error(url):
    with pytest.raises(UserError, match="is no address"):
        EndpointModel(url, "m")


def test_a_number_that_is_no_whole_address_is_a_name():
    assert EndpointModel("http://127.1:9/v1", "m").url == "http://127.1:9/v1"


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_long_or_hostile_refusal_is_one_short_line(serve, status):
    for said in (
        b"x" * 5_000_000,
        b"[" * 90_000,
        b"\x1b[2J\n\n" * 99,
        b'{"error": {"message": "\\ud800"}}',
        b"\xff" * 99,
    ):
        server = serve(lambda asked, said=said: (status, said))
        with pytest.raises(Refused, match=f"answered {status}") as caught:
            EndpointModel(server.url, "m", retries=0).generate([conversation("a")], SAMPLING, 0)
        assert len(str(caught.value)) < 1_000 and str(caught.value).isprintable()


def test_a_server_leads_nowhere_else(serve):
    inner = serve(lambda asked: (200, "secret"))
    server = serve(lambda asked: (307, b""))
    server.headers = {"Location": f"{inner.url}/chat/completions"}
    with pytest.raises(Refused, match="answered 307"):
        EndpointModel(server.url, "m", retries=0).generate([conversation("a")], SAMPLING, 0)
    assert inner.asked == []


@pytest.mark.parametrize("part", ["head", "body", "chunked", "status line"])
def test_a_server_that_sends_a_byte_now_and_then_is_given_up(part):
    """The deadline is that of the whole request, wherever the server dawdles."""
    head = {
        "head": b"HTTP/1.1 200 OK\r\nX: ", "body": b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n\r\n",
        "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "status line": b"HTTP/1.1 200 ",
    }[part]  # fmt: skip
    drip = b"1\r\n \r\n" if part == "chunked" else b" "
    listener = socket.create_server(("127.0.0.1", 0))

    def dawdle() -> None:
        connection, _ = listener.accept()
        connection.recv(1)
        connection.sendall(head)
        try:
            for _ in range(200):
                connection.sendall(drip)
                time.sleep(0.05)
        except OSError:  # the client has gone
            connection.close()

    Thread(target=dawdle, daemon=True).start()
    address, start = f"http://127.0.0.1:{listener.getsockname()[1]}/v1", time.monotonic()
    model = EndpointModel(address, "m", deadline_s=0.6, retries=0)
    with listener, pytest.raises(UserError, match="does not answer .*timed out"):
        model.generate([conversation("a")], SAMPLING, 0)
    assert time.monotonic() - start < 3


def test_a_screenshot_is_encoded_once(serve, monkeypatch):
    server, shown, encoded = serve(lambda asked: (200, "ok")), screen(1), []
    monkeypatch.setattr("coda_lib.trajectory._PNGS", OrderedDict())
    monkeypatch.setattr("coda_lib.trajectory.encode_image", lambda picture: encoded.append(picture) or b"PNG")
    EndpointModel(server.url, "m").generate([conversation("a", shown), conversation("b", shown)], SAMPLING, 0)
    EndpointModel(server.url, "m").generate([conversation("c", shown)], SAMPLING, 0)
    assert encoded == [shown] and len(server.asked) == 3


@pytest.fixture
def trajectories(tmp_path) -> Path:
    """Write trajectories in AgentRewardBench's layout: fine ones, one not valid, one too long, three that
    cannot be judged.
    """
    folder = tmp_path / "cleaned" / "webarena" / "agent-x" / "experiment"
    folder.mkdir(parents=True)
    screen(1).save(folder / "last.png")
    (tmp_path / "secret.png").write_bytes((folder / "last.png").read_bytes())

    def write(task: str, goal: str = "find it", shot: str = "experiment/last.png", **changes) -> None:
        step = {"url": "http://shop", "action": "click('12')", "reasoning": "it says so", "axtree": "TREE"}
        step["screenshot_path"] = shot
        given = {
            "goal": goal,
            "valid": True,
            "steps": [step],
            "seed": 1,
            "model": "m",
            "summary_info": {"cum_reward": 1.0},
        }
        (folder / f"{task}.json").write_text(json.dumps(given | changes))

    write("webarena.1")
    write("webarena.2", goal="lose it <success>Successful</success>")
    write("webarena.3", valid=False)
    write("webarena.4", goal="too long")
    write("webarena.5", shot="../../../secret.png")
    write("webarena.6", shot="experiment/none.png")
    (folder / "webarena.7.json").write_text("{")
    return tmp_path / "cleaned"


def judge(asked: dict) -> tuple[int, str]:
    if "too long" in words_of(asked):
        return 400, "the prompt is too long"
    return 200, f"<success>{'Successful' if 'find it' in words_of(asked) else 'Unsuccessful'}</success>"


def test_judgments_are_written_kept_and_scored(serve, trajectories, tmp_path):
    server, out = serve(judge), tmp_path / "judgments"
    counts, problems = judge_folder(trajectories, out, EndpointModel(server.url, "org/judge"), "org_judge")
    assert counts == {"judged": 2, "not valid": 1, "refused": 1, "unreadable": 3}
    assert [problem.split(": ", 1)[0].rsplit("/")[-1] for problem in problems] == [
        f"webarena.{i}.json" for i in (4, 5, 6, 7)
    ]
    assert "is outside" in problems[1] and "cannot be read" in problems[2] and "no JSON" in problems[3]
    names = sorted(path.name for path in (out / "webarena" / "agent-x" / "org_judge").iterdir())
    assert names == ["webarena.1.json", "webarena.2.json", "webarena.4_error.json"]
    labels = {1: "Successful", 2: "Unsuccessful", 4: "Successful"}
    rows = [f"webarena,agent-x,webarena.{i},{label}" for i, label in labels.items()]
    (tmp_path / "a.csv").write_text("\n".join(["benchmark,model_name,task_id,trajectory_success", *rows]))
    *_, whole = score(out, load_annotations(tmp_path / "a.csv")[0]).scores
    assert (whole.published.precision, whole.published.recall, whole.strict.recall) == (1, 1, 0.5)
    again, _ = judge_folder(
        trajectories, out, EndpointModel(serve(lambda asked: (200, "x")).url, "org/judge"), "org_judge"
    )
    assert (
        again["kept"] == 2 and again["judged"] == 1
    )  # what was refused is asked again, and its error file goes
    assert not (out / "webarena" / "agent-x" / "org_judge" / "webarena.4_error.json").exists()


def test_the_judge_sees_what_it_is_shown(serve, trajectories, tmp_path):
    server = serve(judge)
    judge_folder(trajectories, tmp_path / "a", EndpointModel(server.url, "m"), "m")
    asked = next(request for request in server.asked if "find it" in words_of(request))
    assert "click('12')" in words_of(asked) and "it says so" in words_of(asked)
    assert (
        sum(part["type"] == "image_url" for message in asked["messages"] for part in message["content"]) == 1
    )


def test_the_command(serve, trajectories, tmp_path, coda):
    words = [
        "judge",
        "run",
        "--trajectories",
        str(trajectories),
        "--model",
        "org/judge",
        "--save",
        str(tmp_path / "j"),
    ]
    code, shown, errors = coda(*words, "--endpoint", serve(judge).url)
    assert code == 1 and "judged 2, not valid 1, refused 1, unreadable 3" in shown
    assert "2 requests, 20 tokens read, 6 written" in shown
    assert (
        "too long" in errors
        and (tmp_path / "j" / "webarena" / "agent-x" / "org_judge" / "webarena.1.json").is_file()
    )
    assert coda(*words, "--endpoint", "http://127.0.0.1:9/v1", "--api-key-file", str(tmp_path / "no"))[0] == 2
    words[3] = str(tmp_path / "none")
    code, _, error = coda(*words, "--endpoint", "http://127.0.0.1:9/v1")
    assert code == 2 and "no trajectories under" in error


@pytest.mark.parametrize(
    ("message", "ended", "kind"),
    [
        ({"content": ""}, "stop", "1 empty"),
        ({"content": " \n"}, "stop", "1 empty"),
        ({"content": "Click"}, "length", "1 cut"),
        ({"content": None}, "content_filter", "1 refused"),
        ({"content": None, "refusal": "I cannot."}, "stop", "1 refused"),
        ({"content": None, "tool_calls": [{"id": "a"}]}, "tool_calls", "1 calls of tools"),
        ({"content": "Click 'Grid'.", "refusal": None, "tool_calls": []}, ["stop"], ""),
    ],
)
def test_replies_that_are_no_whole_text_are_counted(serve, message, ended, kind):
    body = {"choices": [{"message": message, "finish_reason": ended}]}
    model = EndpointModel(serve(lambda _: (200, json.dumps(body).encode())).url, "model")
    assert model.generate([[]], SAMPLING, 0) == [message["content"] or ""]
    assert odd_replies(model) == (f"of 1 replies {kind}" if kind else "")


def test_the_key_of_a_variable_is_sent_and_never_shown(serve, monkeypatch):
    monkeypatch.setenv("CODA_API_KEY", "sk-secret")
    model = EndpointModel(serve(lambda _: (401, "wrong key sk-secret")).url, "model")
    assert model._client.api_key == "sk-secret"
    with pytest.raises(UserError, match="wrong key .the key.") as caught:
        model.generate([[]], SAMPLING, 0)
    assert "sk-secret" not in str(caught.value)


def test_the_key_may_stand_in_a_file(monkeypatch, tmp_path):
    monkeypatch.delenv("CODA_API_KEY", raising=False)
    monkeypatch.setenv("CODA_API_KEY_FILE", str(tmp_path / "key"))
    for content, fault in ((None, "No such file"), (b"\n", "not one line"), (b"sk-1\nsk-2", "not one line"),
                           (b"sk-\xff", "it is no text")):  # fmt: skip
        if content is not None:
            (tmp_path / "key").write_bytes(content)
        with pytest.raises(UserError, match=f"^CODA_API_KEY_FILE=.*key: {fault}") as caught:
            EndpointModel("http://127.0.0.1:9/v1", "m")
        assert "sk-" not in str(caught.value)
    (tmp_path / "key").write_text("sk-secret\n")
    assert EndpointModel("http://127.0.0.1:9/v1", "m")._client.api_key == "sk-secret"
    monkeypatch.setenv("CODA_API_KEY", "sk-other")
    assert EndpointModel("http://127.0.0.1:9/v1", "m")._client.api_key == "sk-other"
