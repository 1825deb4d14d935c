"""Where libraries keep their caches if the home folder cannot be written: beside the runs."""

from __future__ import annotations

import os
from pathlib import Path

from coda_lib.paths import RESULTS

# variable: its place in the home folder. Snakemake, fontconfig, datasets and PyTorch follow XDG_CACHE_HOME
PLACES = {
    "XDG_CACHE_HOME": ".cache",
    "MPLCONFIGDIR": ".config/matplotlib",
    "IPYTHONDIR": ".ipython",
    "JUPYTER_RUNTIME_DIR": ".local/share/jupyter/runtime",
    "TRITON_CACHE_DIR": ".triton/cache",
}
HUB = ".cache/huggingface"  # what was downloaded to it can be read all the same


def settle_caches(folder: Path = RESULTS / ".cache") -> None:
    """Point the variables of `PLACES` that are not set into `folder`, where their place cannot be written.

    Processes that this one starts inherit them.  Libraries read them when they are first imported.
    """
    home = Path(os.path.expanduser("~"))
    for variable, place in PLACES.items():
        if not _can_be_written(home / place):
            os.environ.setdefault(variable, str(folder / place.replace("/", "-").removeprefix(".")))
    for variable, name in {"HF_HUB_CACHE": "hub", "HF_TOKEN_PATH": "token"}.items():
        if os.path.exists(home / HUB / name):
            os.environ.setdefault(variable, str(home / HUB / name))


def _can_be_written(path: Path) -> bool:
    """Whether a folder is there or can be made, and takes files; without a home folder `path` is relative."""
    there = next(parent for parent in (path, *path.parents) if os.path.exists(parent))
    return path.is_absolute() and there.is_dir() and os.access(there, os.W_OK | os.X_OK)
