"""What a stage depends on besides its settings: the library code behind its notebook, checkpoints and data.

The Snakefile declares these files as inputs, so that a stage is run again when, and only when, one of them
changes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import grimp
from IPython.core.inputtransformer2 import TransformerManager

from coda_lib.files import read_json
from coda_lib.paths import REPO, checkpoint_path

PACKAGES = ("coda_lib", "sciencedesk", "coda_study", "base_models")
DRIVERS = ("coda_study.cli", "coda_study.pipeline")  # run the stages, shape no result
DISPLAYS = ("coda_study.show",)  # what notebooks draw; no part of a result


def code_files(notebook: Path, without: Iterable[str] = ()) -> list[Path]:
    """The library files behind a notebook, sorted: every module that it imports, directly or not.

    `without` names modules and packages, such as 'coda_study.show', that are left out with all that only they
    import; the drivers always are.
    """
    found: set[str] = set()
    waiting = list(_modules(notebook))
    while waiting:
        module = waiting.pop()
        if module and module not in found and not _within(module, (*without, *DRIVERS)):
            found.add(module)
            # a package is imported with what is in it
            waiting += [*_graph().find_modules_directly_imported_by(module), module.rpartition(".")[0]]
    return sorted(map(_file, found))


def checkpoint_files(name: str) -> list[Path]:
    """The files of a checkpoint in this repository, without its card; a name on the hub has none."""
    folder = Path(checkpoint_path(name))
    return [path for path in data_files(folder) if path.suffix != ".md"] if folder.is_absolute() else []


def data_files(folder: Path, without: str = "") -> list[Path]:
    """The files under a folder, sorted, but for a subfolder `without`; hidden files are left out."""
    paths = {path: path.relative_to(folder).parts for path in sorted(folder.rglob("*")) if path.is_file()}
    hidden = {path for path, parts in paths.items() if any(part.startswith(".") for part in parts)}
    return [path for path, parts in paths.items() if parts[0] != without and path not in hidden]


@cache
def _graph() -> grimp.ImportGraph:
    return grimp.build_graph(*PACKAGES, cache_dir=None, exclude_type_checking_imports=True)


def _within(module: str, packages: Iterable[str]) -> bool:
    return any(f"{module}.".startswith(f"{package}.") for package in packages)


def _file(module: str) -> Path:
    path = REPO.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def _modules(notebook: Path) -> Iterator[str]:
    """The modules of the library that a notebook's cells import, which may hold IPython's own syntax."""
    cells = [cell for cell in read_json(notebook)["cells"] if cell["cell_type"] == "code"]
    python = TransformerManager().transform_cell
    code = "\n".join(python("".join(cell["source"])) for cell in cells)
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if _within(alias.name, PACKAGES))
        elif isinstance(node, ast.ImportFrom) and _within(node.module or "", PACKAGES):
            yield from (_home(node.module, alias.name) for alias in node.names)


def _home(module: str, name: str) -> str:
    """The module behind `from module import name`: a submodule, the home of a public name, or `module`."""
    if f"{module}.{name}" in _graph().modules:
        return f"{module}.{name}"
    if _file(module).name != "__init__.py":
        return module
    public = getattr(import_module(module), "PUBLIC", {})  # submodule: names
    return next((f"{module}.{home}" for home, names in public.items() if name in names), module)
