"""What a stage depends on besides its settings: the library code behind its notebook, checkpoints and data.

The Snakefile declares these files as inputs, so that a stage is run again when, and only when, one of them changes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from coda_lib.files import read_json
from coda_lib.paths import REPO, checkpoint_path

LIBRARY = REPO / "coda_lib"
DRIVERS = (  # run the stages, shape no result
    "cli", "dependencies", "notebook", "pipeline", "processes", "progress", "provenance", "runner", "scheduler",
)  # fmt: skip
DISPLAYS = ("pictures", "plotting", "report", "teaching")  # matter to the results and to the tutorials only


def code_files(notebook: Path, without: Iterable[str] = ()) -> list[Path]:
    """Return the library files behind a notebook: modules that it imports, directly or not, and the package's data.

    Modules named in `without`, and the drivers, are left out.
    """
    without = {*without, *DRIVERS}
    found: set[Path] = set()
    waiting = list(_imports(_source(notebook)))
    while waiting:
        name = waiting.pop()
        path = _module_file(name)
        if path is None or path in found or without.intersection(name.split(".")[1:2]):
            continue
        found.add(path)
        waiting += _imports(path.read_text(encoding="utf-8"))
    data = [path for path in LIBRARY.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc")]
    return sorted(found) + sorted(path for path in data if "report" not in without or "templates" not in path.parts)


def checkpoint_files(name: str) -> list[Path]:
    """Return the files of a checkpoint that lies in this repository; a name on the hub has none."""
    folder = Path(checkpoint_path(name))
    return data_files(folder) if folder.is_absolute() else []


def data_files(folder: Path, without: str = "") -> list[Path]:
    """Return the files under a folder, sorted, but for a subfolder `without`; hidden files are left out."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [(path, path.relative_to(folder).parts) for path in paths]
    return [path for path, parts in names if parts[0] != without and not any(part.startswith(".") for part in parts)]


def _source(notebook: Path) -> str:
    """Return the code cells as one program, without the lines that only IPython understands."""
    cells = [cell for cell in read_json(notebook)["cells"] if cell["cell_type"] == "code"]
    lines = "\n".join("".join(cell["source"]) for cell in cells).splitlines()
    return "\n".join(line for line in lines if not line.lstrip().startswith(("%", "!")))


def _imports(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "coda_lib":
                yield from (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _module_file(name: str) -> Path | None:
    path = REPO.joinpath(*name.split("."))
    candidates = (path.with_suffix(".py"), path / "__init__.py")
    return next((candidate for candidate in candidates if candidate.exists()), None)
