"""A log that goes back to where an interrupted training was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coda_lib.files import write_text


class Journal:
    """A log file, one line of JSON an entry, which goes back to where an interrupted training was.

    Of several processes only one `writes`.
    """

    def __init__(self, path: Path, writes: bool):
        self.path, self.writes = path, writes
        self.load_state_dict({"lines": ""})

    def __call__(self, entry: dict[str, Any]) -> None:
        if self.writes:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry) + "\n")

    def state_dict(self) -> dict[str, Any]:
        return {"lines": self.path.read_text(encoding="utf-8")}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self.writes:
            write_text(self.path, state["lines"])
