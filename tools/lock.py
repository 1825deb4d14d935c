"""Write requirements.lock: every package that `make` installs, with its version and the hashes of its files.

`python -m tools.lock` asks uv (`pip install uv`) for one list for all Pythons and systems of pyproject.toml;
markers say where a line holds.  What is in the list stays at its version unless a pin in pyproject.toml wants
another; `--upgrade` renews all.

PyTorch is not in the list: its builds for CPUs and for GPUs are different files of one version, and the
latter bring gigabytes of further packages.  `make` installs the pinned version last, from whatever source pip
is set up with.  What every build of it needs is in the list.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from importlib.metadata import requires
from pathlib import Path

from coda_lib.paths import REPO

LOCK = REPO / "requirements.lock"
EXTRAS = ("dev", "docs", "hub", "scale")  # those that `make` installs; vLLM pins a PyTorch of its own
APART = "torch"


def wanted() -> list[str]:
    """The pins of pyproject.toml behind the list, that of the build and PyTorch's plain requirements among
    them.
    """
    settings = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
    extras = (settings["project"]["optional-dependencies"][name] for name in EXTRAS)
    pins = sum(extras, settings["project"]["dependencies"] + settings["build-system"]["requires"])
    plain = [
        one for one in requires(APART) or () if ";" not in one
    ]  # others are of one system, or of an extra
    return [pin for pin in pins if not pin.startswith(f"{APART}==")] + plain


def oldest_python() -> str:
    """The oldest Python of `requires-python`, such as 3.11."""
    settings = tomllib.loads((REPO / "pyproject.toml").read_text(encoding="utf-8"))
    return settings["project"]["requires-python"].partition(",")[0].removeprefix(">=")


def main(options: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        pins, without = Path(folder) / "pins.txt", Path(folder) / "without.txt"
        pins.write_text("\n".join(wanted()) + "\n")
        without.write_text(f"{APART} ; python_version < '3'\n")  # nobody's dependency
        command = ["uv", "pip", "compile", pins, "--override", without, "--universal", "--python-version",
        oldest_python(),
                   "--generate-hashes", "--no-annotate", "--no-header", "--output-file", LOCK, "--quiet",
                   *options]  # fmt: skip
        subprocess.run(list(map(str, command)), check=True)


if __name__ == "__main__":
    main(sys.argv[1:])
