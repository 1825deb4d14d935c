"""Stage 1 with plans that a server of vLLM writes, as far as it goes without vLLM."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from datasets import Dataset

from coda_lib import trainer as trainer_module
from coda_lib.config import load_profile
from coda_lib.errors import UserError
from coda_lib.trainer import specialize


@pytest.fixture
def by_server(monkeypatch):
    """Give a function that begins to train with a server's plans, and stops where TRL would ask it; returns
    the arguments.
    """

    def begin(server: str, installed: bool = True):
        begun = {}

        def trainer(**given):
            begun.update(given)
            raise KeyboardInterrupt

        monkeypatch.setattr(trainer_module, "find_spec", lambda name: installed or None)
        monkeypatch.setattr(trainer_module, "load_network", lambda *_, **__: None)
        monkeypatch.setattr(trainer_module, "align_special_tokens", lambda network, processor: None)
        monkeypatch.setattr(trainer_module, "load_processor", lambda *_: None)
        settings = load_profile("smoke", (f"specialize.vllm_server={server}",))
        row = Dataset.from_dict({"prompt": ["x"]})
        with pytest.raises(KeyboardInterrupt):
            specialize(
                row, "planner", None, settings.specialize, settings.planner, Path("nowhere"), 0, kind=trainer
            )
        return begun["args"]

    return begin


def test_plans_can_come_from_a_server_of_vllm(by_server):
    with HTTPServer(("127.0.0.1", 0), Healthy) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        asked = by_server(url)
        server.shutdown()
    assert (asked.use_vllm, asked.vllm_mode, asked.vllm_server_base_url) == (True, "server", url)
    assert not asked.vllm_importance_sampling_correction  # TRL's default masks and caps; eq. 3 does not


def test_a_server_that_cannot_be_used_is_said_before_anything_is_loaded(by_server):
    with pytest.raises(UserError, match=r"needs vLLM here as well: pip install --editable '\.\[gpu\]'"):
        by_server("http://127.0.0.1:9", installed=False)
    with pytest.raises(
        UserError, match="(?s)127.0.0.1:9 does not answer .*vllm serve planner --weight-transfer-config"
    ):
        by_server("http://127.0.0.1:9")


class Healthy(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/health" else 404)
        self.end_headers()

    def log_message(self, *_) -> None:
        pass
